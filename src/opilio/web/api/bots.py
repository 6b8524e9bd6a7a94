"""Bots and their tokens, and the figures of the fleet."""

from typing import Any

from opilio.contracts.management import BotInfo, NewToken, Stats, TokenRow
from opilio.web.api.shared import ListQuery, whole
from opilio.web.routes import Call, Registry

BOTS = Registry()


@BOTS.add("GET", "/api/v1/bots", "read", "List bots by id", query=ListQuery, answer=list[BotInfo], tag="bots")
async def list_bots(call: Call) -> Any:
    return await call.opilio.insights.bots(limit=call.query.limit, cursor=call.query.cursor)


@BOTS.add(
    "GET",
    "/api/v1/bots/{bot_id:str}/tokens",
    "admin",
    "The tokens of a bot",
    answer=list[TokenRow],
    tag="bots",
)
async def bot_tokens(call: Call) -> Any:
    rows = await call.opilio.credentials.bot_tokens(call.text("bot_id"))
    return whole(
        [
            TokenRow(id=row["token_id"], created_at=row["created_at"], revoked_at=row["revoked_at"])
            for row in rows
        ]
    )


@BOTS.add(
    "POST",
    "/api/v1/bots/{bot_id:str}/tokens",
    "admin",
    "A new token, shown once",
    answer=NewToken,
    status=201,
    tag="bots",
)
async def new_bot_token(call: Call) -> Any:
    bot_id = call.text("bot_id")
    token_id, token = await call.opilio.credentials.new_bot_token(bot_id, by=call.actor)
    return NewToken(id=token_id, token=token)


@BOTS.add(
    "DELETE",
    "/api/v1/bots/{bot_id:str}/tokens",
    "admin",
    "Revoke all tokens of a bot",
    answer=dict[str, int],
    errors=("not_found",),
    tag="bots",
)
async def revoke_bot_tokens(call: Call) -> Any:
    return await _revoke(call, None)


@BOTS.add(
    "DELETE",
    "/api/v1/bots/{bot_id:str}/tokens/{id:str}",
    "admin",
    "Revoke one token",
    answer=dict[str, int],
    errors=("not_found",),
    tag="bots",
)
async def revoke_bot_token(call: Call) -> Any:
    return await _revoke(call, call.uuid())


async def _revoke(call: Call, token_id: Any) -> dict[str, int]:
    bot_id = call.text("bot_id")
    count = await call.opilio.credentials.revoke_bot_tokens(bot_id, token_id, by=call.actor)
    return {"revoked": count}


@BOTS.add("GET", "/api/v1/stats", "read", "Counts by state, rates, oldest due", answer=Stats, tag="figures")
async def stats(call: Call) -> Any:
    return await call.opilio.insights.stats()
