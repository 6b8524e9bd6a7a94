"""`opilio bots`: bots and their tokens."""

from typing import Annotated, Any
from uuid import UUID

import typer

from opilio.cli import option_types
from opilio.cli.context import actor, open_opilio_for_cli, run_async
from opilio.cli.output import Cursor, Json, Limit, print_page, show

app = typer.Typer(no_args_is_help=True, help="Bots and their tokens.")
_COLUMNS = (
    "bot_id",
    "capabilities",
    "last_seen_at",
    "locked",
    "tokens",
    "done_24h",
    "failed_24h",
    "late_24h",
)


@app.command()
def token(bot_id: str, json: Json = False) -> None:
    """Creates a token for a bot and prints it; it is never shown again."""
    token_id, secret = run_async(_token(bot_id))
    show({"id": token_id, "bot_id": bot_id, "token": secret}, json, lambda: print(secret))


async def _token(bot_id: str) -> tuple[UUID, str]:
    async with open_opilio_for_cli() as opilio:
        return await opilio.credentials.new_bot_token(bot_id, by=actor())


@app.command("list")
def list_(limit: Limit = 50, cursor: Cursor = None, json: Json = False) -> None:
    """Lists bots with their locked jobs and their counts of the last 24 hours."""
    page = run_async(_list(limit, cursor))
    show(page, json, lambda: print_page(page, _COLUMNS, "no bots; `opilio bots token BOT_ID` adds one"))


async def _list(limit: int, cursor: str | None) -> Any:
    async with open_opilio_for_cli() as opilio:
        return await opilio.insights.bots(limit=limit, cursor=cursor)


@app.command()
def revoke(
    bot_id: str,
    token_id: Annotated[
        str | None, typer.Option("--token", help="Revoke only the token with this id.")
    ] = None,
    json: Json = False,
) -> None:
    """Revokes the tokens of a bot at once."""
    count = run_async(_revoke(bot_id, option_types.uuid(token_id) if token_id else None))
    show({"bot_id": bot_id, "revoked": count}, json, lambda: print(f"{count} revoked"))


async def _revoke(bot_id: str, token_id: UUID | None) -> int:
    async with open_opilio_for_cli() as opilio:
        return await opilio.credentials.revoke_bot_tokens(bot_id, token_id, by=actor())
