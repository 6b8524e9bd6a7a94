"""Checks bots' claims on jobs against what the database knows of their locks."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import msgspec

from opilio.adapters.postgres import Row, Session
from opilio.crawl.job import State
from opilio.crawl.sql import QUERIES
from opilio.errors import Refused
from opilio.lock_rules import Claim, ClaimStatus, JobLock, PastLock, check, holds


class Reply(msgspec.Struct, frozen=True):
    """What one claim is answered: data for the envelope, or a refusal."""

    data: bytes | None = None
    refusal: Refused | None = None
    state: State | None = None


# ── loading ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class JobFacts:
    """Job facts needed to check claims; `rows` are the active jobs, locked for this transaction."""

    now: datetime
    rows: dict[UUID, Row]
    locks: dict[UUID, JobLock]
    past: dict[UUID, list[PastLock]]

    def check(self, claim: Claim) -> ClaimStatus:
        return check(claim, self.locks.get(claim.job_id), self.past[claim.job_id], self.now)


async def take_jobs(session: Session, job_ids: Iterable[UUID], now: datetime | None) -> list[Row]:
    """Locks active jobs in one order everywhere, with everything that decides their next state."""
    return await session.fetch(QUERIES.take_jobs, job_ids=list(job_ids), now=now)


async def load_facts(session: Session, claims: Sequence[Claim], now: datetime | None) -> JobFacts:
    """Past locks are read only for claims whose bot does not hold the job."""
    rows = {row["job_id"]: row for row in await take_jobs(session, [c.job_id for c in claims], now)}
    at = next((row["at"] for row in rows.values()), None)
    if at is None:
        at = await session.value(QUERIES.clock, now=now)
    facts = JobFacts(at, rows, {i: _current_lock(row) for i, row in rows.items()}, defaultdict(list))
    doubtful = [c.job_id for c in claims if c.job_id not in rows or not holds(c, facts.locks[c.job_id], at)]
    if doubtful:
        await _add_past(session, facts, doubtful)
    return facts


async def _add_past(session: Session, facts: JobFacts, job_ids: list[UUID]) -> None:
    for row in await session.fetch(QUERIES.take_ended, job_ids=job_ids):
        facts.locks[row["job_id"]] = JobLock(
            State(row["status"]),
            row["locked_by"],
            row["lock_token"],
            row["locked_until"],
            row["digest"],
            row["answer"],
        )
    for row in await session.fetch(QUERIES.past_locks, job_ids=job_ids):
        facts.past[row["job_id"]].append(
            PastLock(row["bot_id"], row["lock_token"], row["lost"], row["digest"], row["answer"])
        )


def state_of(row: Row) -> State:
    """The state of an active job: its place is one of several while it is pending."""
    return State.LOCKED if row["place"] == State.LOCKED else State.PENDING


def _current_lock(row: Row) -> JobLock:
    return JobLock(state_of(row), row["locked_by"], row["lock_token"], row["locked_until"])
