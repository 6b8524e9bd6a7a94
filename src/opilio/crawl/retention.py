"""Drops history by age, a partition at a time, so that nothing bloats and nothing is scanned."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from opilio.adapters.postgres import Database, Statement
from opilio.crawl.sql import QUERIES

_AHEAD = 3
_UNIT = {
    "day": timedelta(days=1),
    "month": timedelta(days=28),
}  # the shortest month, so that none is stepped over


@dataclass(frozen=True, slots=True)
class Keep:
    """For how many days each kind of history is kept; 0 is for ever."""

    jobs: int = 14
    html: int = 7
    results: int = 0
    late: int = 30


class OldPages(Protocol):
    async def drop_before(self, day: datetime) -> int: ...


class Retention:
    def __init__(self, database: Database, pages: OldPages, keep: Keep) -> None:
        self._db = database
        self._pages = pages
        self._keep = keep
        self._tables = {
            "job_archive": ("day", keep.jobs),
            "job_step": ("day", keep.jobs),
            "result": ("month", keep.results),
            "result_html": ("day", keep.html),
        }

    async def run(self, now: datetime | None = None) -> list[str]:
        """Makes the partitions of the next days and drops those past their age; answers what was dropped."""
        now = now or datetime.now(UTC)
        dropped: list[str] = []
        for table, (unit, days) in self._tables.items():
            for step in range(_AHEAD + 1):
                await self._db.execute(
                    QUERIES.prepare_partition, parent=table, unit=unit, at=now + step * _UNIT[unit]
                )
            if days:
                dropped += await self._drop(table, now - timedelta(days=days))
        await self._db.execute(QUERIES.drop_late, before=now - timedelta(days=self._keep.late))
        await self._db.execute(QUERIES.drop_activity, before=now - timedelta(days=90))
        await self._db.execute(QUERIES.drop_policies, before=now - timedelta(days=self._keep.jobs))
        await self._pages.drop_before(now - timedelta(days=self._keep.html))
        return dropped

    async def _drop(self, table: str, before: datetime) -> list[str]:
        rows = await self._db.fetch(QUERIES.partitions, parent=table)
        old = [row["name"] for row in rows if row["ends_at"] is not None and row["ends_at"] <= before]
        for name in old:
            # A name cannot be a parameter; this one comes from the catalogue, quoted.
            await self._db.execute(Statement("drop_partition", f'drop table "{name}"', ()))
        other = f'delete from "{table}_other" where {_AGE[table]} < $1'
        await self._db.execute(Statement("drop_strays", other, ("before",)), before=before)
        return old


_AGE = {"job_archive": "finished_at", "job_step": "at", "result": "crawled_at", "result_html": "crawled_at"}
