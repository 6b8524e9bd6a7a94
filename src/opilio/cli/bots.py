"""`opilio bots`: who crawls, and the tokens they show."""

from typing import Annotated, Any
from uuid import UUID

import typer

from opilio import audit
from opilio.cli import option_types
from opilio.cli.context import actor, open_opilio_for_cli, run_async
from opilio.cli.output import Cursor, Json, Limit, print_page, show

app = typer.Typer(no_args_is_help=True, help="Who crawls, and the tokens they show.")
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
    """Makes a token for a bot and prints it alone; it is never shown again."""
    token_id, secret = run_async(_token(bot_id))
    show({"id": token_id, "bot_id": bot_id, "token": secret}, json, lambda: print(secret))


async def _token(bot_id: str) -> tuple[UUID, str]:
    async with open_opilio_for_cli() as opilio:
        made = await opilio.credentials.new_bot_token(bot_id)
        await audit.record(opilio.database, actor(), "bot.token", bot_id)
        return made


@app.command("list")
def list_(limit: Limit = 50, cursor: Cursor = None, json: Json = False) -> None:
    """Lists bots, with what they hold and did in the last day."""
    page = run_async(_list(limit, cursor))
    show(
        page, json, lambda: print_page(page, _COLUMNS, "no bots: `opilio bots token BOT_ID` makes the first")
    )


async def _list(limit: int, cursor: str | None) -> Any:
    async with open_opilio_for_cli() as opilio:
        return await opilio.insights.bots(limit=limit, cursor=cursor)


@app.command()
def revoke(
    bot_id: str,
    token_id: Annotated[str | None, typer.Option("--token", help="Only this one, by its id.")] = None,
    json: Json = False,
) -> None:
    """Makes the tokens of a bot worthless, at once."""
    count = run_async(_revoke(bot_id, option_types.uuid(token_id) if token_id else None))
    show({"bot_id": bot_id, "revoked": count}, json, lambda: print(f"{count} revoked"))


async def _revoke(bot_id: str, token_id: UUID | None) -> int:
    async with open_opilio_for_cli() as opilio:
        count = await opilio.credentials.revoke_bot_tokens(bot_id, token_id)
        await audit.record(opilio.database, actor(), "bot.revoke", bot_id)
        return count
