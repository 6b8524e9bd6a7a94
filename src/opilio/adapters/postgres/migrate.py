"""Brings a database to a revision of the schema."""

import asyncio
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import asyncpg
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from opilio.errors import OpilioError


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """Where a database stands: its revision, the newest one, and what lies between."""

    current: str | None
    head: str
    pending: list[str]

    @property
    def up_to_date(self) -> bool:
        return self.current == self.head


def _config(url: str) -> Config:
    config = Config()
    config.set_main_option("script_location", str(files("opilio.migrations")))
    scheme, _, rest = url.partition("://")
    config.attributes["url"] = f"{scheme.split('+')[0]}+asyncpg://{rest}"
    return config


async def upgrade(url: str, revision: str = "head") -> SchemaStatus:
    """Upgrades under an advisory lock, so that processes that start together do it once."""
    guard = await asyncpg.connect(url)
    try:
        await guard.execute("select pg_advisory_lock(hashtext('opilio.migrate'))")
        before = await status(url)
        if revision == "head" and before.up_to_date:
            return before
        await asyncio.to_thread(command.upgrade, _config(url), revision)
        return await status(url)
    finally:
        await guard.close()


async def downgrade(url: str, revision: str) -> SchemaStatus:
    await asyncio.to_thread(command.downgrade, _config(url), revision)
    return await status(url)


async def status(url: str) -> SchemaStatus:
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
    connection: Any = await asyncpg.connect(url)
    try:
        if await connection.fetchval("select to_regclass('alembic_version')") is None:
            return None
        found: str | None = await connection.fetchval("select version_num from alembic_version")
        return found
    finally:
        await connection.close()
