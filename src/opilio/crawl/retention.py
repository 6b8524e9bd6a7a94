"""Drops history by age, a partition at a time, so that nothing bloats and nothing is scanned."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol
from uuid import UUID

from opilio.adapters.postgres import Database
from opilio.adapters.postgres.partitions import Partitions
from opilio.crawl.sql import QUERIES

_BATCH, _MOVED = 10_000, 5_000
_FIRST = UUID(int=0)
_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Keep:
    """For how many days each kind of history is kept; 0 is for ever."""

    jobs: int = 30
    events: int = 30
    """A job that is done carries its event, which is written again if the job goes first."""
    html: int = 7
    results: int = 0
    late: int = 30
    values: int = 365


class OldPages(Protocol):
    async def drop_before(self, day: datetime) -> int: ...


class Retention:
    def __init__(self, database: Database, pages: OldPages, keep: Keep) -> None:
        self._db = database
        self._pages = pages
        self._keep = keep
        self._tables = [
            (Partitions(database, "job_archive", "day"), keep.jobs),
            (Partitions(database, "job_step", "day"), keep.jobs),
            (Partitions(database, "result", "month"), keep.results),
            (Partitions(database, "result_html", "day"), keep.html),
        ]

    async def run(self, now: datetime | None = None) -> list[str]:
        """Makes the partitions of the next days and drops those past their age; answers what was dropped."""
        now = now or datetime.now(UTC)
        dropped: list[str] = []
        for partitions, _ in self._tables:
            await partitions.prepare(now)
        if self._keep.jobs:
            await self._keep_outcomes(now, now - timedelta(days=self._keep.jobs))
        for partitions, days in self._tables:
            if days:
                dropped += await partitions.drop_before(now - timedelta(days=days))
        if self._keep.values:
            await self._drop_values(now - timedelta(days=self._keep.values))
        await self._db.execute(QUERIES.drop_late, before=now - timedelta(days=self._keep.late))
        for statement in (QUERIES.drop_activity, QUERIES.drop_cooling):
            await self._db.execute(statement, before=now - timedelta(days=90))
        await self._db.execute(QUERIES.drop_policies, before=now - timedelta(days=self._keep.jobs))
        await self._pages.drop_before(now - timedelta(days=self._keep.html))
        return dropped

    async def _keep_outcomes(self, now: datetime, until: datetime) -> None:
        """Results and events that outlive the jobs that carry them get rows of their own, a short statement a batch."""
        events_since = now - timedelta(days=self._keep.events)
        results_since = now - timedelta(days=self._keep.results) if self._keep.results else _EPOCH
        if min(events_since, results_since) >= until:
            return
        last: UUID | None = _FIRST
        while last is not None:
            last = await self._db.value(
                QUERIES.keep_outcomes,
                events_since=events_since,
                results_since=results_since,
                until=until,
                after=last,
                most=_MOVED,
            )

    async def _drop_values(self, before: datetime) -> None:
        """Oldest first, a short statement a batch, so that submits never wait for it."""
        for statement in (QUERIES.drop_values, QUERIES.drop_first_values):
            while await self._db.execute(statement, before=before, most=_BATCH) == _BATCH:
                continue
