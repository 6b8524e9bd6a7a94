"""Creates jobs for due policies, and repairs what a crash may have left."""

from dataclasses import dataclass
from uuid import UUID

from opilio.adapters.postgres import Database, Row, Session
from opilio.clock import Clock
from opilio.crawl.politeness import Limits
from opilio.crawl.priority import Rules
from opilio.crawl.sql import QUERIES

_BATCH = 20_000


@dataclass(frozen=True, slots=True)
class CreatedJobs:
    """What one run did."""

    created: int
    due: int


class Scheduler:
    """Idempotent, and safe to run concurrently."""

    def __init__(
        self,
        database: Database,
        *,
        rules: Rules | None = None,
        fleet: Limits | None = None,
        fill_idle: bool = False,
        clock: Clock | None = None,
        batch: int = _BATCH,
    ) -> None:
        self._db = database
        self._rules = rules or Rules()
        self._fleet = fleet or Limits()
        self._fill_idle = fill_idle
        self._clock = clock or Clock()
        self._batch = batch
        self._repaired_to: UUID | None = None

    async def create_due(self) -> CreatedJobs:
        """Creates the job of every due policy, one statement a batch, until none is left."""
        created = due = 0
        while True:
            row = await self._db.transact(self._create_some, hot=True)
            created, due = created + row["created"], due + row["due"]
            if row["due"] < self._batch:
                return CreatedJobs(created, due)

    async def _create_some(self, session: Session) -> Row:
        await session.execute(QUERIES.schedule_alone)
        rows = await session.fetch(
            QUERIES.create_due,
            most=self._batch,
            fleet_gated=self._fleet.any,
            fill_idle=self._fill_idle,
            overdue_bands=list(self._rules.overdue.bands),
            overdue_points=list(self._rules.overdue.points),
            error_bands=list(self._rules.error_rate.bands),
            error_points=list(self._rules.error_rate.points),
            hot_bands=list(self._rules.hot.bands),
            hot_points=list(self._rules.hot.points),
            now=self._clock.now(),
        )
        return rows[0]

    async def repair(self) -> int:
        """Restores a due row or a job for each enabled policy, and a gate for gated jobs."""
        row = await self._db.row(QUERIES.restore_due, after=self._repaired_to, most=self._batch)
        assert row is not None
        restored, self._repaired_to = row["restored"], row["next"]
        await self._db.execute(QUERIES.drop_orphans)
        return int(restored) + await self._db.execute(QUERIES.restore_gates, now=self._clock.now())
