"""The policies that a filter of jobs, results or policies means: looked up first, so that an index finds their rows."""

import asyncio
from uuid import UUID

from opilio.adapters.postgres import Database, Session, load_queries

_Q = load_queries("opilio.insights")
MOST_LIKE = 1_000
# A host with more policies has so many jobs that the newest of all jobs soon fill a page.
_FEW = 200


async def policies_like(
    database: Database, q: str, *, most: int = MOST_LIKE, with_deleted: bool = True
) -> list[UUID]:
    """The newest policies whose URL, name or article number has this text; the two tables are read at the same time."""
    # Lower case of ASCII alone is several times faster, and all that an ASCII text needs.
    by_url, by_title = await asyncio.gather(
        database.fetch(_Q.policies_by_url, q=q, most=most, with_deleted=with_deleted),
        database.fetch(_Q.policies_by_title, q=q, is_ascii=q.isascii(), most=most, with_deleted=with_deleted),
    )
    return sorted({row["id"] for row in (*by_url, *by_title)}, reverse=True)[:most]


async def policies_of_host(session: Session, host: str) -> list[UUID] | None:
    """Every policy that a host has or had; None if there are many."""
    rows = await session.fetch(_Q.policies_of_host, host=host, most=_FEW + 1)
    return [row["id"] for row in rows] if len(rows) <= _FEW else None
