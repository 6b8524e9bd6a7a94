"""`opilio db`: the schema of the database."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from opilio.cli.context import run_async, settings
from opilio.cli.output import Json, show

if TYPE_CHECKING:
    from opilio.adapters.postgres.migrate import SchemaStatus

app = typer.Typer(no_args_is_help=True, help="Upgrade, downgrade and show the schema of the database.")


@app.command()
def upgrade(
    revision: Annotated[str, typer.Argument(help="Revision to upgrade to; default: the newest.")] = "head",
    json: Json = False,
) -> None:
    """Upgrades the schema."""
    _show(run_async(_migrate("upgrade", revision)), json)


@app.command()
def downgrade(revision: str, json: Json = False) -> None:
    """Downgrades the schema to a revision; `base` drops everything."""
    _show(run_async(_migrate("downgrade", revision)), json)


@app.command()
def status(json: Json = False) -> None:
    """Shows the current revision and pending upgrades."""
    _show(run_async(_migrate("status")), json)


async def _migrate(what: str, *words: str) -> "SchemaStatus":
    from alembic.util import CommandError

    from opilio.adapters.postgres import migrate
    from opilio.errors import OpilioError
    from opilio.runtime.bootstrap import database_url

    work: dict[str, Any] = {
        "upgrade": migrate.upgrade,
        "downgrade": migrate.downgrade,
        "status": migrate.status,
    }
    async with database_url(settings()) as url:
        try:
            found: SchemaStatus = await work[what](url, *words)
        except CommandError as error:
            raise OpilioError(str(error)) from None
    return found


def _show(found: "SchemaStatus", json: bool) -> None:
    document = {
        "current": found.current,
        "head": found.head,
        "pending": found.pending,
        "up_to_date": found.up_to_date,
    }
    show(document, json, lambda: _print(found))


def _print(found: "SchemaStatus") -> None:
    print(f"revision {found.current or 'none'}, newest {found.head}")
    print("up to date" if found.up_to_date else f"`opilio db upgrade` runs {', '.join(found.pending)}")
