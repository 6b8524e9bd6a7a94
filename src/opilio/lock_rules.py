"""Whether a bot's claim on a job counts: the lock and who asks → accepted, repeated, late or refused.

The server and the fake control plane of the bot SDK follow the same rules.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from opilio.errors import Refused


class Claim(msgspec.Struct, frozen=True):
    """A bot says that it holds a job; `digest` is a fingerprint of what it wants to do with it."""

    bot_id: str
    job_id: UUID
    lock_token: UUID | None
    digest: bytes


class JobLock(msgspec.Struct, frozen=True):
    """The lock on an active job, or the last one of a job that ended."""

    state: str
    locked_by: str | None
    lock_token: UUID | None
    locked_until: datetime | None
    digest: bytes | None = None
    answer: str | None = None


class PastLock(msgspec.Struct, frozen=True):
    """A lock that ended while the job went on; `lost` if it was not the bot itself that ended it."""

    bot_id: str
    lock_token: UUID | None
    lost: bool
    digest: bytes | None
    answer: str | None


class Accepted(msgspec.Struct, frozen=True):
    """The bot holds the job."""


class Repeated(msgspec.Struct, frozen=True):
    """The same request was answered before: it gets the same answer."""

    answer: str


class Late(msgspec.Struct, frozen=True):
    """The lock has ended: the submission is stored as a late result and not applied."""

    refusal: Refused


ClaimStatus = Accepted | Repeated | Late | Refused
ACCEPTED = Accepted()


def check(claim: Claim, job: JobLock | None, past: Sequence[PastLock], now: datetime) -> ClaimStatus:
    """Whether a claim counts; `past` is needed only where the bot does not hold the job."""
    if job is None:
        return Refused("job_not_found", "there is no job %(id)s", id=str(claim.job_id))
    if holds(claim, job.state, job.locked_by, job.lock_token, job.locked_until, now):
        return ACCEPTED
    repeated = _first_answer(claim, job, past)
    if repeated is not None:
        return repeated
    if job.state == "locked" and _own(claim, job.locked_by, job.lock_token):
        return _late("the lock ended at %(at)s", at=f"{job.locked_until:%Y-%m-%dT%H:%M:%SZ}")
    return _refusal(claim, job, past)


def holds(
    claim: Claim,
    state: str,
    locked_by: str | None,
    lock_token: UUID | None,
    locked_until: datetime | None,
    now: datetime,
) -> bool:
    """Whether the lock is the claimant's and has not ended; every submit asks, so no object is made for it."""
    if state != "locked" or locked_until is None or now >= locked_until:
        return False
    return _own(claim, locked_by, lock_token)


def _own(claim: Claim, bot_id: str | None, token: UUID | None) -> bool:
    """Whether a lock is the claimant's: by its token if it sent one, else by the bot."""
    return bot_id == claim.bot_id and (claim.lock_token is None or claim.lock_token == token)


def _first_answer(claim: Claim, job: JobLock, past: Sequence[PastLock]) -> Repeated | None:
    locks: list[JobLock | PastLock] = [job, *reversed(past)]
    for lock in locks:
        bot_id = lock.locked_by if isinstance(lock, JobLock) else lock.bot_id
        if lock.answer is not None and lock.digest == claim.digest and _own(claim, bot_id, lock.lock_token):
            return Repeated(lock.answer)
    return None


def _refusal(claim: Claim, job: JobLock, past: Sequence[PastLock]) -> Late | Refused:
    if job.state not in ("pending", "locked") and _own(claim, job.locked_by, job.lock_token):
        if job.state == "expired":
            return _late("the lock expired, and the job has no retries left")
        return Refused(
            "invalid_state",
            "the job is already %(state)s with another result; only a repetition of that result is answered again",
            state=job.state,
        )
    own = [lock for lock in past if _own(claim, lock.bot_id, lock.lock_token)]
    if not own:
        return Refused("not_assigned", "the job is not assigned to this bot with this lock; pull it first")
    if own[-1].lost or job.state != "pending":
        return _late("the lock on this job was lost, and the job has moved on")
    return Refused(
        "invalid_state", "this lock was given back, or its result was taken already; pull the job again"
    )


def _late(template: str, **params: str) -> Late:
    return Late(Refused("lock_expired", f"{template}; a result is kept aside as a late result", **params))
