"""Brings a database to a revision of the schema.

Alembic costs most of a second to import: a database that is up to date, as on nearly every start, is told by the
names of the revisions alone.
"""

import asyncio
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import asyncpg

from opilio.adapters.postgres.database_url import parse_database_url
from opilio.errors import OpilioError

if TYPE_CHECKING:
    from alembic.config import Config

_FILE = re.compile(r"^v\d{4}_\w+\.py$")
_REVISION = re.compile(r'^revision = "(\d+)"', re.MULTILINE)
_DOWN_REVISION = re.compile(r'^down_revision = "(\d+)"', re.MULTILINE)


_TRIES = 40
# A change of a table that waits for a lock makes all others wait behind it: better to give up and try again. PostgreSQL looks for deadlocks
# after a second and may refuse either side: before that, we give way. But only after a second it ends an automatic vacuum that is in our way.
_LOCK_TIMEOUT, _LONGER_LOCK_TIMEOUT, _SHORT_TRIES = "700ms", "1500ms", 3
_TRY_LOCK = "select pg_try_advisory_lock(hashtext('opilio.migrate'))"
_POLL_SECONDS = 0.1
# Others hold what we wait for, or wait for what we hold.
_IN_USE = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """Where a database stands: its revision, the newest one, and what lies between."""

    current: str | None
    head: str
    pending: list[str]

    @property
    def up_to_date(self) -> bool:
        return self.current == self.head


@cache
def revisions() -> tuple[str, ...]:
    """All revisions, oldest first, by what the files say; they are numbered as they were begun, not as they follow."""
    after: dict[str | None, str] = {}
    for file in files("opilio.migrations.versions").iterdir():
        if _FILE.match(file.name):
            text = file.read_text(encoding="utf-8")
            before = _DOWN_REVISION.search(text)
            after[before[1] if before else None] = _REVISION.search(text)[1]  # type: ignore[index]
    found: list[str] = []
    while (following := after.get(found[-1] if found else None)) is not None:
        found.append(following)
    return tuple(found)


def newest() -> str:
    """The newest revision."""
    return revisions()[-1]


def compatibility_note(revision: str, previous: str) -> str:
    """The comment on `alembic_version` that lets running processes of the revision before stay ready."""
    return f"revision {revision} also works with processes of revision {previous}"


def _config(url: str, lock_timeout: str = _LOCK_TIMEOUT) -> "Config":
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(files("opilio.migrations")))
    config.attributes["url"] = url
    config.attributes["lock_timeout"] = lock_timeout
    return config


def load_alembic() -> None:
    """Imports what an upgrade will need."""
    for module in ("alembic.command", "sqlalchemy.ext.asyncio", "sqlalchemy.dialects.postgresql.asyncpg"):
        import_module(module)


async def is_current(url: str) -> bool:
    return await _current(url) == newest()


async def upgrade(url: str, revision: str = "head") -> SchemaStatus:
    """Upgrades under an advisory lock, so that processes that start together do it once."""
    guard = await asyncpg.connect(**parse_database_url(url).arguments("opilio db"))
    try:
        # Asked again and again, because an index that is made concurrently waits for every statement that waits.
        while not await guard.fetchval(_TRY_LOCK):  # noqa: ASYNC110 - held by another process
            await asyncio.sleep(_POLL_SECONDS)
        if revision == "head" and await is_current(url):
            return SchemaStatus(newest(), newest(), [])
        await status(url)  # refuses a database from the future
        await _patiently(lambda timeout: _command().upgrade(_config(url, timeout), revision))
        return await status(url)
    finally:
        await guard.close()


async def _patiently(work: Callable[[str], None]) -> None:
    """With a lock timeout; again when a table was in use: what was done before it is committed, and the rest goes on from there."""
    from sqlalchemy.exc import DBAPIError  # noqa: PLC0415

    for tries_left in reversed(range(_TRIES)):
        short = tries_left >= _TRIES - _SHORT_TRIES
        try:
            return await asyncio.to_thread(work, _LOCK_TIMEOUT if short else _LONGER_LOCK_TIMEOUT)
        except (DBAPIError, *_IN_USE) as error:
            cause = getattr(error.orig, "__cause__", None) if isinstance(error, DBAPIError) else error
            if not isinstance(cause, _IN_USE):
                raise
            if not tries_left:
                raise OpilioError(
                    f"A table was in use for {_TRIES} tries: {cause}. Nothing is half done; end the long transaction "
                    "(select * from pg_stat_activity where state <> 'idle') and run it again"
                ) from error
        await asyncio.sleep(random.uniform(0.5, 1.5))
    return None


async def downgrade(url: str, revision: str) -> SchemaStatus:
    await _patiently(lambda timeout: _command().downgrade(_config(url, timeout), revision))
    return await status(url)


def _command() -> Any:
    from alembic import command  # noqa: PLC0415

    return command


async def status(url: str) -> SchemaStatus:
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    scripts = ScriptDirectory.from_config(_config(url))
    head = scripts.get_current_head() or ""
    current = await _current(url)
    known = {script.revision for script in scripts.walk_revisions()}
    if current and current not in known:
        raise OpilioError(
            f"The database is at revision {current}, which this version of Opilio does not know: "
            "it was upgraded by a newer version. Install that version, or downgrade the database with it first."
        )
    pending = (
        [] if current == head else [s.revision for s in scripts.iterate_revisions(head, current or "base")]
    )
    return SchemaStatus(current, head, pending[::-1])


async def _current(url: str) -> str | None:
    connection: Any = await asyncpg.connect(**parse_database_url(url).arguments("opilio db"))
    try:
        if await connection.fetchval("select to_regclass('alembic_version')") is None:
            return None
        found: str | None = await connection.fetchval("select version_num from alembic_version")
        return found
    finally:
        await connection.close()
