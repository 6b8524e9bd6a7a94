"""`opilio events`: read the event log."""

from typing import Annotated, Any

import typer

from opilio.cli.context import open_opilio_for_cli, run_async
from opilio.cli.option_types import Since
from opilio.cli.output import Cursor, Json, JsonLines, Limit, cell, print_json, print_page, show

app = typer.Typer(no_args_is_help=True, help="Read the event log.")
_COLUMNS = ("time", "type", "subject", "id")
Types = Annotated[
    list[str] | None, typer.Option("--type", help="Only these types, like crawl.job.*. Repeatable.")
]


@app.command()
def tail(types: Types = None, since: Since = None, json: JsonLines = False) -> None:
    """Prints events as they happen, until stopped."""
    run_async(_tail(types, since, json))


async def _tail(types: list[str] | None, since: Any, as_json: bool) -> None:
    async with open_opilio_for_cli() as opilio:
        async for event in opilio.events.tail(types=types, since=since):
            if as_json:
                print_json(event.event)
            else:
                print(f"{cell(event.time)}  {event.type}  {event.subject}", flush=True)


@app.command("list")
def list_(
    types: Types = None,
    subject: Annotated[str | None, typer.Option(help="Only this subject.")] = None,
    since: Since = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    json: Json = False,
) -> None:
    """Lists events, newest first."""
    page = run_async(_list(types=types, subject=subject, since=since, limit=limit, cursor=cursor))
    show(page, json, lambda: print_page(page, _COLUMNS, "no events"))


async def _list(**filters: Any) -> Any:
    async with open_opilio_for_cli() as opilio:
        return await opilio.events.page(**filters)
