"""What commands share: settings, the database, an open Opilio, and who runs the command."""

import asyncio
import getpass
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from opilio.cli.output import note

if TYPE_CHECKING:
    from opilio.adapters.postgres import Database
    from opilio.runtime.bootstrap import Opilio
    from opilio.runtime.settings import Settings

T = TypeVar("T")


def settings(**overrides: Any) -> "Settings":
    """The settings, with the options of this command."""
    from opilio.runtime.settings import load_settings

    return load_settings(**overrides)


def run_async(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


@asynccontextmanager
async def open_database() -> "AsyncIterator[Database]":
    """The database only; its schema is not upgraded."""
    from opilio.adapters.postgres import Database
    from opilio.runtime.bootstrap import database_url

    async with database_url(_prepared(settings())) as url:
        database = await Database.connect(url)
        try:
            yield database
        finally:
            await database.close()


@asynccontextmanager
async def open_opilio_for_cli() -> "AsyncIterator[Opilio]":
    """An open Opilio; the embedded server of the data directory is joined if it runs, else started."""
    from opilio.runtime.bootstrap import open_opilio

    async with open_opilio(_prepared(settings()), name="opilio cli") as opilio:
        yield opilio


def _prepared(wanted: "Settings") -> "Settings":
    """Logs to stderr, for stdout is the answer; says when a command starts the embedded database."""
    from opilio.runtime.instance_file import demo_allowances, find_instance, has_demo
    from opilio.runtime.logging import configure_logging

    quiet = {} if "log_level" in wanted.given else {"log_level": "warning"}
    configure_logging(wanted.with_values(**quiet))
    if wanted.embedded and find_instance(wanted.data_dir) is None:
        note(f"OPILIO_DATABASE_URL is not set: using the embedded database in {wanted.data_dir}")
    if wanted.embedded and has_demo(wanted):  # as `opilio up` does for its processes
        return wanted.with_values(**demo_allowances(wanted))
    return wanted


def actor() -> str:
    """The actor for the audit log and timelines."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):  # a container may run under a user id without a name
        return "cli"
