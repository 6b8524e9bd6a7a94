"""The audit log: who changed what, written in the transaction of the change."""

from datetime import datetime
from typing import Any

from opilio.adapters.postgres import Database, Row, Session, load_queries

_SQL = load_queries("opilio.audit")
# The actor of changes that nobody asked for by hand: demo data, tests.
SYSTEM = "system"


async def record(
    session: Session | Database, actor: str, action: str, subject: str, details: Any = None
) -> None:
    """Adds one entry; with a session it is part of that session's transaction."""
    await session.execute(_SQL.add_entry, actor=actor, action=action, subject=subject, details=details or {})


async def entries(
    database: Database,
    before: int | None,
    limit: int,
    *,
    q: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> list[Row]:
    """Newest first; `before` is the id of the last entry of the page before, `q` a text in any of its fields."""
    return await database.fetch(_SQL.list_entries, before=before, limit=limit, q=q, since=since, until=until)


async def delete_before(database: Database, before: datetime) -> int:
    """Deletes old entries in short steps; answers how many."""
    total = 0
    while deleted := await database.execute(_SQL.delete_entries, before=before, most=5000):
        total += deleted
    return total
