"""What commands share: settings, the database, a wired Opilio, and a loop to run in."""

import asyncio
import getpass
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from opilio.adapters.postgres import Database
    from opilio.runtime.bootstrap import Opilio
    from opilio.runtime.settings import Settings

T = TypeVar("T")


def settings(**overrides: Any) -> "Settings":
    """The settings of this command, with what its options say; logs stay quiet unless asked for."""
    from opilio.runtime.settings import load_settings

    return load_settings(**overrides)


def run_async(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


@asynccontextmanager
async def open_database() -> "AsyncIterator[Database]":
    """The database alone, as it is: nothing is upgraded."""
    from opilio.adapters.postgres import Database
    from opilio.runtime.bootstrap import database_url

    async with database_url(settings()) as url:
        database = await Database.connect(url)
        try:
            yield database
        finally:
            await database.close()


@asynccontextmanager
async def open_opilio_for_cli() -> "AsyncIterator[Opilio]":
    """Everything, whether `opilio up` runs or not: the embedded server is joined by its data directory."""
    from opilio.runtime.bootstrap import open_opilio

    async with open_opilio(settings(), name="opilio cli") as opilio:
        yield opilio


def actor() -> str:
    """Who the audit log and timelines name for what this command does."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):  # a container may run under a number that has no name
        return "cli"
