"""`opilio hosts`: how often and how widely each host may be visited."""

from datetime import timedelta
from typing import Annotated, Any

import typer

from opilio.cli import option_types
from opilio.cli.context import actor, open_opilio_for_cli, run_async
from opilio.cli.output import Cursor, Json, Limit, print_fields, print_page, print_table, show

app = typer.Typer(no_args_is_help=True, help="How often and how widely each host may be visited.")
_COLUMNS = (
    "host",
    "effective_max_concurrent",
    "effective_min_delay_seconds",
    "cooling_until",
    "locked",
    "waiting",
    "policies",
)


@app.command("list")
def list_(limit: Limit = 50, cursor: Cursor = None, json: Json = False) -> None:
    """Lists hosts by name."""
    page = run_async(_list(limit, cursor))
    show(page, json, lambda: print_page(page, _COLUMNS, "no hosts"))


async def _list(limit: int, cursor: str | None) -> Any:
    async with open_opilio_for_cli() as opilio:
        return await opilio.insights.hosts(limit=limit, cursor=cursor)


@app.command("show")
def show_(host: str, json: Json = False) -> None:
    """Shows one host, and when it was cooling down in the last seven days."""
    found = run_async(_get(host))

    def print_host() -> None:
        print_fields(found, hide=("cooling_periods",))
        columns = ("began_at", "until", "reason")
        rows = ([getattr(period, name) for name in columns] for period in found.cooling_periods)
        print_table(columns, rows, "was not cooling down in the last seven days")

    show(found, json, print_host)


async def _get(host: str) -> Any:
    async with open_opilio_for_cli() as opilio:
        return await opilio.insights.host(host.lower())


@app.command("set")
def set_(
    host: str,
    max_concurrent: Annotated[
        int | None, typer.Option(min=1, max=100_000, help="Jobs locked at once.")
    ] = None,
    min_delay: Annotated[
        timedelta | None,
        typer.Option(parser=option_types.duration, metavar="DURATION", help="Between two hand-outs."),
    ] = None,
    json: Json = False,
) -> None:
    """Replaces the host's limits; omitted ones use the default."""
    answer = run_async(_set(host, max_concurrent, min_delay))
    show(answer, json, lambda: print_fields(answer, hide=("cooling_periods",)))


async def _set(host: str, max_concurrent: int | None, min_delay: timedelta | None) -> Any:
    from opilio.crawl.politeness import Limits

    limits = Limits(max_concurrent, min_delay.total_seconds() if min_delay is not None else None)
    async with open_opilio_for_cli() as opilio:
        name = await opilio.hosts.set_limits(host, limits, actor())
        return await opilio.insights.host(name)
