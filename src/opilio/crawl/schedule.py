"""Makes jobs when policies are due, and mends what a crash may have left."""

from dataclasses import dataclass
from uuid import UUID

import asyncpg

from opilio.adapters.postgres import Database, Row, Session
from opilio.clock import Clock
from opilio.crawl.lock_end import QUERIES
from opilio.crawl.politeness import Limits
from opilio.crawl.priority import Rules

_BATCH = 20_000


@dataclass(frozen=True, slots=True)
class Created:
    """What one run did."""

    created: int
    due: int


class Scheduling:
    """Idempotent, and safe beside any number of its like."""

    def __init__(
        self,
        database: Database,
        *,
        rules: Rules | None = None,
        fleet: Limits | None = None,
        clock: Clock | None = None,
        batch: int = _BATCH,
    ) -> None:
        self._db = database
        self._rules = rules or Rules()
        self._fleet = fleet or Limits()
        self._clock = clock or Clock()
        self._batch = batch

    async def create_due(self) -> Created:
        """Creates the job of every due policy, a batch a statement, until none is left."""
        created = due = 0
        while True:
            try:
                row = await self._db.transact(self._create_some, hot=True)
            except (
                asyncpg.UniqueViolationError
            ):  # somebody ran a policy by hand in this very moment: look again
                continue
            created, due = created + row["created"], due + row["due"]
            if row["due"] < self._batch:
                return Created(created, due)

    async def _create_some(self, session: Session) -> Row:
        await session.execute(QUERIES.schedule_alone)
        rows = await session.fetch(
            QUERIES.create_due,
            most=self._batch,
            fleet_gated=self._fleet.any,
            overdue_bands=list(self._rules.overdue.bands),
            overdue_points=list(self._rules.overdue.points),
            error_bands=list(self._rules.error_rate.bands),
            error_points=list(self._rules.error_rate.points),
            hot_bands=list(self._rules.hot.bands),
            hot_points=list(self._rules.hot.points),
            now=self._clock.now(),
        )
        return rows[0]

    async def run_now(self, policy_id: UUID, priority: int, by: str) -> UUID | None:
        """A job at once, due or not; with an active job, that job. None if the policy is gone."""
        job_id: UUID | None = await self._db.value(
            QUERIES.create_now, policy_id=policy_id, priority=priority, by=by, now=self._clock.now()
        )
        if job_id is None:
            job_id = await self._db.value(QUERIES.active_job, policy_id=policy_id)
        return job_id

    async def mend(self) -> int:
        """Puts back what must be there: a due row or a job for each enabled policy, a gate before gated jobs."""
        restored = await self._db.execute(QUERIES.restore_due)
        await self._db.execute(QUERIES.drop_orphans)
        await self._db.execute(QUERIES.hold_disabled)
        return restored + await self._db.execute(QUERIES.restore_gates, now=self._clock.now())
