"""`opilio db`: the schema of the database."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opilio.cli.context import actor, run_async, settings
from opilio.cli.output import Json, show
from opilio.errors import OpilioError

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
def downgrade(
    revision: Annotated[str, typer.Argument(help="Revision to downgrade to; `base` drops every table.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    json: Json = False,
) -> None:
    """Downgrades the schema to a revision and deletes the data that newer revisions store."""
    _confirm(revision, yes=yes)
    _show(run_async(_migrate("downgrade", revision)), json)


@app.command()
def status(json: Json = False) -> None:
    """Shows the current revision and pending upgrades."""
    _show(run_async(_migrate("status")), json)


def _confirm(revision: str, *, yes: bool) -> None:
    lost = "EVERYTHING in the database" if revision == "base" else "what newer revisions store"
    question = f"Downgrading {_where()} to {revision} deletes {lost}. Continue?"
    if yes or (revision != "base" and not sys.stdin.isatty()):  # a script that names a revision means it
        return
    if not sys.stdin.isatty():
        raise OpilioError(f"{question.removesuffix(' Continue?')} Repeat the command with --yes to do it.")
    typer.confirm(question, abort=True, err=True)


def _where() -> str:
    from opilio.net.mask_url import mask_url

    wanted = settings()
    return mask_url(wanted.database_url) if wanted.database_url else f"the database in {wanted.data_dir}"


async def _migrate(what: str, *words: str) -> "SchemaStatus":
    from alembic.util import CommandError

    from opilio.adapters.postgres import migrate
    from opilio.runtime.bootstrap import database_url
    from opilio.runtime.processes import database_from_parent

    migrate.load_alembic()
    work: dict[str, Any] = {
        "upgrade": migrate.upgrade,
        "downgrade": migrate.downgrade,
        "status": migrate.status,
    }
    async with database_url(settings(**database_from_parent())) as url:
        try:
            before = None if what == "status" else (await migrate.status(url)).current
            found: SchemaStatus = await work[what](url, *words)
        except CommandError as error:
            raise OpilioError(str(error)) from None
        if what != "status" and found.current not in (None, before):  # None: the audit log went with the rest
            await _record(url, f"schema.{what}", {"from": before, "to": found.current})
    return found


async def _record(url: str, action: str, details: dict[str, Any]) -> None:
    from opilio import audit
    from opilio.adapters.postgres import Database

    database = await Database.connect(url, size=2, hot_size=1, name="opilio cli")
    try:
        await audit.record(database, actor(), action, "database", details)
    finally:
        await database.close()


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
