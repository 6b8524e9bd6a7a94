"""Whether a process can serve: PostgreSQL answers, and its schema is the one of this version.

A process that runs stays ready when the next revision is applied under it and notes that it keeps the statements of the
version before working, so that processes can be replaced one by one. A process never starts on a schema that is not its own.
"""

import asyncio

import asyncpg

from opilio.adapters.postgres import Database, Statement, migrate

_PATIENCE = 3.0
_REVISION = Statement(
    "revision",
    "select version_num as revision, obj_description('alembic_version'::regclass, 'pg_class') as note"
    " from alembic_version",
    (),
)


class Readiness:
    """Checks the database, one check at a time.

    A check that hangs is not cancelled: giving its connection back would hang as well. Later questions get its answer.
    """

    def __init__(self, database: Database, *, starting: bool = False) -> None:
        self._db = database
        self._starting = starting
        self._check: asyncio.Task[str] | None = None

    async def fault(self) -> str:
        """Why the process cannot serve; empty if it can."""
        if self._check is None or self._check.done():
            self._check = asyncio.create_task(self._look())
        done, _ = await asyncio.wait({self._check}, timeout=_PATIENCE)
        if not done:
            return f"PostgreSQL does not answer within {_PATIENCE:.0f} s"
        return self._check.result()

    async def _look(self) -> str:
        try:
            row = await self._db.row(_REVISION)
        except asyncpg.UndefinedTableError:
            row = None
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            return f"PostgreSQL does not answer: {error or type(error).__name__}"
        if row is None:
            return "the database has no schema; run `opilio db upgrade`"
        return schema_fault(row["revision"], None if self._starting else row["note"])


def schema_fault(revision: str, note: str | None) -> str:
    """What is wrong with a revision of the schema; empty if this version can work on it."""
    newest = migrate.newest()
    if revision == newest:
        return ""
    if revision in migrate.revisions():
        return f"the schema is at revision {revision}, older than {newest}; run `opilio db upgrade`"
    if note == migrate.compatibility_note(revision, newest):
        return ""
    return (
        f"the schema is at revision {revision}, which this version does not know; "
        "install the newer version of Opilio that upgraded it"
    )
