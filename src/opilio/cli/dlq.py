"""`opilio dlq`: list and replay dead letters."""

from typing import Annotated, Any
from uuid import UUID

import typer

from opilio.cli import option_types
from opilio.cli.context import actor, open_opilio_for_cli, run_async
from opilio.cli.output import Cursor, Json, Limit, print_fields, print_page, show

app = typer.Typer(no_args_is_help=True, help="List and replay dead letters.")
_COLUMNS = ("id", "queue", "reason", "message_id", "size", "dead_at")
Id = Annotated[UUID, typer.Argument(parser=option_types.uuid, metavar="ID", help="The dead letter's id.")]


@app.command("list")
def list_(
    queue: Annotated[str | None, typer.Option(help="Only this queue, like collector.results.dlq.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    json: Json = False,
) -> None:
    """Lists dead letters, newest first."""
    page = run_async(_list(queue=queue, limit=limit, cursor=cursor))
    show(page, json, lambda: print_page(page, _COLUMNS, "no dead letters"))


async def _list(**filters: Any) -> Any:
    async with open_opilio_for_cli() as opilio:
        return await opilio.dead_letters.page(**filters)


@app.command("show")
def show_(id_: Id, json: Json = False) -> None:
    """Shows one dead letter with its headers and body."""
    letter = run_async(_get(id_))
    show(letter, json, lambda: print_fields(letter))


async def _get(id_: UUID) -> Any:
    async with open_opilio_for_cli() as opilio:
        return await opilio.dead_letters.get(id_)


@app.command()
def replay(id_: Id, json: Json = False) -> None:
    """Sends a dead letter to its queue or webhook again."""
    letter = run_async(_replay(id_))
    show(letter, json, lambda: print(f"replayed to {letter.source or letter.exchange}"))


async def _replay(id_: UUID) -> Any:
    async with open_opilio_for_cli() as opilio:
        return await opilio.dead_letters.replay(id_, actor=actor())
