"""`opilio dlq`: what was given up, why, and sending it again."""

from typing import Annotated, Any
from uuid import UUID

import typer

from opilio import audit
from opilio.cli import option_types
from opilio.cli.context import actor, open_opilio_for_cli, run_async
from opilio.cli.output import Cursor, Json, Limit, print_fields, print_page, show

app = typer.Typer(no_args_is_help=True, help="What was given up, why, and sending it again.")
_COLUMNS = ("id", "queue", "reason", "message_id", "size", "dead_at")
Id = Annotated[UUID, typer.Argument(parser=option_types.uuid, metavar="ID", help="A dead letter.")]


@app.command("list")
def list_(
    queue: Annotated[str | None, typer.Option(help="Only of this queue: collector.results.dlq")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    json: Json = False,
) -> None:
    """Lists dead letters, the newest first."""
    page = run_async(_list(queue=queue, limit=limit, cursor=cursor))
    show(page, json, lambda: print_page(page, _COLUMNS, "no dead letters"))


async def _list(**filters: Any) -> Any:
    async with open_opilio_for_cli() as opilio:
        return await opilio.dead_letters.page(**filters)


@app.command("show")
def show_(id_: Id, json: Json = False) -> None:
    """Shows one with its headers and its body."""
    letter = run_async(_get(id_))
    show(letter, json, lambda: print_fields(letter))


async def _get(id_: UUID) -> Any:
    async with open_opilio_for_cli() as opilio:
        return await opilio.dead_letters.get(id_)


@app.command()
def replay(id_: Id, json: Json = False) -> None:
    """Sends it again to where it was given up."""
    letter = run_async(_replay(id_))
    show(letter, json, lambda: print(f"sent again to {letter.source or letter.exchange}"))


async def _replay(id_: UUID) -> Any:
    async with open_opilio_for_cli() as opilio:
        letter = await opilio.dead_letters.replay(id_)
        await audit.record(opilio.database, actor(), "dlq.replay", str(id_))
        return letter
