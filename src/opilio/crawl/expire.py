"""Expires locks whose TTL passed: the job is retried, or stays EXPIRED when no retries are left."""

import random
from dataclasses import dataclass

from opilio.adapters.postgres import Database, Row, Session
from opilio.clock import Clock
from opilio.contracts import events
from opilio.crawl import retry
from opilio.crawl.claims import take_jobs
from opilio.crawl.job import State
from opilio.crawl.lock_end import FinishedJob, LockEnds, failed_event, retry_facts
from opilio.crawl.retry import Jitter
from opilio.crawl.sql import QUERIES


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
        """Expires up to `most` locks whose TTL passed."""

        async def work(session: Session) -> ExpiredLocks:
            now = self._clock.now()
            found = await session.fetch(QUERIES.find_expired, most=most, now=now)
            if not found:
                return ExpiredLocks()
            ends = LockEnds()
            rows = await take_jobs(session, [row["job_id"] for row in found], now)
            for row in rows:
                self.expire(ends, row, "sweeper", "the lock ran out")
            if rows:
                await ends.write(session, rows[0]["at"])
            return ExpiredLocks(len(ends.returned), len(ends.finished))

        return await self._db.transact(work, hot=True)

    def expire(self, ends: LockEnds, row: Row, by: str, why: str) -> State:
        """LOCKED → EXPIRED → PENDING, or EXPIRED for good; answers the job's new state."""
        decision = retry.expire(retry_facts(row), row["at"], Jitter(self._jitter, random.random()))
        reason = f"{why} after {row['lock_ttl_seconds']:g} s ({row['locked_by']})"
        if decision.retried:
            again = f"retry {decision.retry_count} of {row['max_retries']}"
            ends.retry(row, decision, by, [reason, again], error=reason, error_code=None)
            return decision.state
        ends.finish(
            FinishedJob(
                row=row,
                decision=decision,
                by=by,
                reason=reason,
                event_type=events.JOB_FAILED,
                event=failed_event(row, decision, reason, row["last_error_code"]),
                error=reason,
            )
        )
        return decision.state
