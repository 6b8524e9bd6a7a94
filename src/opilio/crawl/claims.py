"""Checks bots' claims on jobs against what the database knows of their locks."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import msgspec

from opilio.adapters.postgres import Row, Session
from opilio.adapters.postgres.shared_values import own_uuids
from opilio.contracts.bot_api import DoneAnswer
from opilio.crawl.job import State
from opilio.crawl.sql import QUERIES
from opilio.errors import Refused
from opilio.lock_rules import ACCEPTED, Claim, ClaimStatus, JobLock, PastLock, check, holds

_LOCKED = State.LOCKED


class Reply(msgspec.Struct, frozen=True):
    """What one claim is answered: data for the envelope, encoded or not, or a refusal."""

    data: bytes | DoneAnswer | None = None
    refusal: Refused | None = None
    state: State | None = None


# ── loading ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class CheckedClaims:
    """Claims in their order with their status, and the active jobs."""

    now: datetime
    claims: Sequence[Claim]
    statuses: list[ClaimStatus]
    rows: list[Row | None]

    def __iter__(self) -> Iterator[tuple[Claim, ClaimStatus, Row | None]]:
        return zip(self.claims, self.statuses, self.rows, strict=True)


async def take_jobs(session: Session, job_ids: Iterable[UUID], now: datetime | None) -> list[Row]:
    """Locks active jobs in one order everywhere, with everything that decides their next state."""
    return await session.fetch(QUERIES.read_jobs.locking("j"), job_ids=list(job_ids), now=now)


async def check_claims(
    session: Session, claims: Sequence[Claim], now: datetime | None, *, lock: bool = True
) -> CheckedClaims:
    """Past locks are read only for claims whose bot does not hold the job.

    Without `lock` others may change the jobs meanwhile; whoever writes then compares the versions of the rows.
    """
    read = QUERIES.read_jobs.locking("j") if lock else QUERIES.read_jobs
    job_ids = own_uuids(claim.job_id for claim in claims)
    found = {row["job_id"]: row for row in await session.fetch(read, job_ids=job_ids, now=now)}
    rows = [found.get(job_id) for job_id in job_ids]
    at = next((row["at"] for row in found.values()), None)
    if at is None:
        at = await session.value(QUERIES.clock, now=now)
    held = [
        row is not None
        and holds(claim, state_of(row), row["locked_by"], row["lock_token"], row["locked_until"], at)
        for claim, row in zip(claims, rows, strict=True)
    ]
    statuses: list[ClaimStatus] = [ACCEPTED] * len(claims)
    if not all(held):
        doubtful = [position for position, holds_it in enumerate(held) if not holds_it]
        checked = await _check_past(session, [(claims[i], rows[i]) for i in doubtful], at)
        for position, status in zip(doubtful, checked, strict=True):
            statuses[position] = status
    return CheckedClaims(at, claims, statuses, rows)


async def _check_past(
    session: Session, claims: Sequence[tuple[Claim, Row | None]], now: datetime
) -> list[ClaimStatus]:
    """Claims of bots that do not hold the job."""
    job_ids = [claim.job_id for claim, _ in claims]
    locks = {claim.job_id: _current_lock(row) for claim, row in claims if row is not None}
    locks |= {
        row["job_id"]: _last_lock(row) for row in await session.fetch(QUERIES.take_ended, job_ids=job_ids)
    }
    past: dict[UUID, list[PastLock]] = {job_id: [] for job_id in job_ids}
    for row in await session.fetch(QUERIES.past_locks, job_ids=job_ids):
        past[row["job_id"]].append(
            PastLock(row["bot_id"], row["lock_token"], row["lost"], row["digest"], row["answer"])
        )
    return [check(claim, locks.get(claim.job_id), past[claim.job_id], now) for claim, _ in claims]


def state_of(row: Row) -> State:
    """The state of an active job: its place is one of several while it is pending."""
    return _LOCKED if row["place"] == _LOCKED else State.PENDING


def _current_lock(row: Row) -> JobLock:
    return JobLock(state_of(row), row["locked_by"], row["lock_token"], row["locked_until"])


def _last_lock(row: Row) -> JobLock:
    return JobLock(
        State(row["status"]),
        row["locked_by"],
        row["lock_token"],
        row["locked_until"],
        row["digest"],
        row["answer"],
    )
