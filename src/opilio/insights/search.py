"""What a filter of jobs, results or policies means: looked up first, so that an index finds the rows."""

import asyncio
from typing import Any
from uuid import UUID

from opilio.adapters.postgres import Database, Row, Session, Statement, load_queries

_Q = load_queries("opilio.insights")
MOST_LIKE = 1_000
# A host with more policies has so many jobs that the newest of all jobs soon fill a page.
_FEW = 200
# A text that one URL in twenty has is found among the newest policies alone.
_TRIED = 20
_TRIED_JOBS = 20_000


async def policies_like(
    database: Database, q: str, *, most: int = MOST_LIKE, with_deleted: bool = True
) -> list[UUID]:
    """The newest policies whose URL, name or article number has this text."""
    wanted: dict[str, Any] = {"q": q, "most": most, "with_deleted": with_deleted}
    # Lower case of ASCII alone is several times faster, and all that an ASCII text needs; no URL has another.
    named = wanted | {"is_ascii": q.isascii()}
    if not q.isascii():
        return [row["id"] for row in await _pass(database, _Q.policies_by_title, named)]
    async with asyncio.TaskGroup() as group:  # the two tables at the same time
        by_title = group.create_task(_pass(database, _Q.policies_by_title, named))
        by_url = await database.fetch(_Q.newest_by_url, tried=_TRIED * most, **wanted)
        if len(by_url) == most:  # many have it: names matter only of policies that are as new
            by_title.cancel()
            found = by_url + await database.fetch(_Q.newest_by_title, tried=_TRIED * most, **named)
        else:
            found = await _pass(database, _Q.policies_by_url, wanted) + await by_title
    return sorted({row["id"] for row in found}, reverse=True)[:most]


async def _pass(database: Database, statement: Statement, wanted: dict[str, Any]) -> list[Row]:
    """Reads a whole table, in one process: the other table has another."""
    async with database.transaction() as session:
        await session.execute(_Q.in_one_process)
        return await session.fetch(statement, **wanted)


async def policies_of_host(session: Session, host: str) -> list[UUID] | None:
    """Every policy that a host has or had; None if there are many."""
    rows = await session.fetch(_Q.policies_of_host, host=host, most=_FEW + 1)
    return [row["id"] for row in rows] if len(rows) <= _FEW else None


async def is_rare_bot(session: Session, bot_id: str, *, most: int, before: UUID | None = None) -> bool:
    """Whether the newest jobs of all bots hold less than a page of this one's: then its own jobs are found by its name."""
    found = await session.fetch(
        _Q.jobs_of_bot_among_newest, bot_id=bot_id, tried=_TRIED_JOBS, most=most, before=before
    )
    return bool(found[0][0] < most)
