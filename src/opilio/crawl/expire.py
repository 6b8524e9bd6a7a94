"""Expires locks whose TTL passed: the job is retried, or stays EXPIRED when no retries are left."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from opilio.adapters.postgres import Database, Row, Session
from opilio.adapters.postgres.unavailable import does_not_answer
from opilio.clock import Clock
from opilio.crawl import retry
from opilio.crawl.claims import take_jobs
from opilio.crawl.finished_job import failed_row
from opilio.crawl.job import State
from opilio.crawl.lock_end import LockEnds, failed_event, retry_facts
from opilio.crawl.sql import QUERIES
from opilio.logs import get_logger

_log = get_logger(__name__)
_POSTPONE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class ExpiredLocks:
    """What one run did."""

    retried: int = 0
    ended: int = 0

    @property
    def total(self) -> int:
        return self.retried + self.ended


class LockExpiry:
    def __init__(self, database: Database, *, jitter: float = 0.1, clock: Clock | None = None) -> None:
        self._db = database
        self._jitter = jitter
        self._clock = clock or Clock()

    async def run_once(self, *, most: int = 1000) -> ExpiredLocks:
        """Expires up to `most` locks whose TTL passed; when a batch fails, one by one."""
        found: list[UUID] = []

        async def work(session: Session) -> ExpiredLocks:
            rows = await session.fetch(QUERIES.find_expired, most=most, now=self._clock.now())
            found[:] = [row["job_id"] for row in rows]
            return await self._expire(session, found)

        try:
            return await self._db.transact(work, hot=True)
        except Exception as error:
            if does_not_answer(error):
                raise
            _log.warning("expire.batch_failed", jobs=len(found), error=str(error))
        done = [await self._expire_alone(job_id) for job_id in found]
        return ExpiredLocks(sum(one.retried for one in done), sum(one.ended for one in done))

    async def _expire_alone(self, job_id: UUID) -> ExpiredLocks:
        try:
            return await self._db.transact(lambda session: self._expire(session, [job_id]), hot=True)
        except Exception as error:
            if does_not_answer(error):
                raise
            _log.error("expire.failed", job_id=str(job_id), exc_info=error)
            # Behind the others, so that locks that cannot expire never fill a whole batch.
            await self._db.execute(
                QUERIES.postpone_expiry, job_id=job_id, seconds=_POSTPONE_SECONDS, now=self._clock.now()
            )
            return ExpiredLocks()

    async def _expire(self, session: Session, job_ids: Sequence[UUID]) -> ExpiredLocks:
        ends = LockEnds()
        rows = await take_jobs(session, job_ids, self._clock.now()) if job_ids else []
        for row in rows:
            # Heartbeats may have come between the search and the lock of the row.
            if row["locked_until"] is not None and row["locked_until"] <= row["at"]:
                self.expire(ends, row, "sweeper", "the lock expired")
        if rows:
            await ends.write(session, rows[0]["at"])
        return ExpiredLocks(len(ends.returned), len(ends.finished))

    def expire(self, ends: LockEnds, row: Row, by: str, why: str) -> State:
        """LOCKED → EXPIRED → PENDING, or EXPIRED for good; answers the job's new state."""
        decision = retry.expire(retry_facts(row), row["at"], self._jitter * random.random())
        reason = f"{why} after {row['lock_ttl_seconds']:g} s ({row['locked_by']})"
        if decision.retried:
            again = f"retry {decision.retry_count} of {row['max_retries']}"
            ends.retry(row, decision, by, [reason, again], error=reason, error_code=None)
            return decision.state
        event = failed_event(row, decision, reason, row["last_error_code"])
        ends.finish(row, failed_row(row, decision, by, reason, error=reason, event=event))
        return decision.state
