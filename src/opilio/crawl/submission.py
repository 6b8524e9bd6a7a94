"""What a bot may submit, and what a submission is worth against the job it speaks of."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

import msgspec

from opilio.contracts.bot_api import Outcome
from opilio.crawl.history import Values
from opilio.crawl.job import ACTIVE, State
from opilio.crawl.storable import check_storable
from opilio.errors import Invalid, Refused

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SAID = tuple(name for name in Outcome.__struct_fields__ if name != "lock_token")
_MOST_DIGITS, _MOST_DECIMALS = 18, 10


class Claim(msgspec.Struct, frozen=True):
    """A bot says that it holds a job; `digest` is a fingerprint of what it wants to do with it."""

    bot_id: str
    job_id: UUID
    lock_token: UUID | None
    digest: bytes


class Submission(msgspec.Struct, frozen=True):
    """One checked submission."""

    claim: Claim
    success: bool
    values: Values
    data: Mapping[str, Any] | None
    html_hash: str | None
    crawl_duration: float | None
    raw_html: str | None
    error_msg: str | None
    error_code: str | None
    retry_after: float | None


def parse(bot_id: str, outcome: Outcome) -> Submission:
    """Checks what the types cannot say; the first fault is named by its field."""
    price = _price(outcome.price)
    _text("title", outcome.title)
    _text("error_msg", outcome.error_msg)
    _text("error_code", outcome.error_code)
    _text("html_hash", outcome.html_hash)
    check_storable("data", outcome.data)
    if outcome.success:
        _complete(outcome, price)
    currency = outcome.currency.upper() if outcome.currency else None
    return Submission(
        claim=Claim(bot_id, outcome.job_id, outcome.lock_token, _digest(outcome)),
        success=outcome.success,
        values=Values(price, currency, outcome.title, outcome.in_stock, outcome.data),
        data=outcome.data,
        html_hash=outcome.html_hash,
        crawl_duration=outcome.crawl_duration,
        # HTML itself reads U+0000 as U+FFFD, and PostgreSQL cannot store the former.
        raw_html=outcome.raw_html.replace("\x00", "\ufffd") if outcome.raw_html else None,
        error_msg=outcome.error_msg,
        error_code=outcome.error_code,
        retry_after=outcome.retry_after,
    )


def _complete(outcome: Outcome, price: Decimal | None) -> None:
    if price is not None and outcome.currency is None:
        raise Invalid("currency", "is required with a price: three letters such as USD or VND")
    if price is None and not outcome.data:
        raise Invalid("price", "a successful result needs price and currency, or a non-empty data object")


def _price(raw: msgspec.Raw) -> Decimal | None:
    digits = bytes(raw)
    if digits == b"null":
        return None
    if not digits[:1].isdigit() and digits[:1] != b"-":
        raise Invalid("price", "must be a number")
    try:
        price = Decimal(digits.decode("ascii"))
    except InvalidOperation:  # an exponent beyond what even a decimal can hold
        raise _too_long() from None
    if price < 0:
        raise Invalid("price", "must not be negative")
    exponent = int(price.as_tuple().exponent)
    if price.adjusted() >= _MOST_DIGITS or -exponent > _MOST_DECIMALS:
        raise _too_long()
    return abs(price)  # JSON knows a -0, shops do not


def _too_long() -> Invalid:
    return Invalid("price", f"has more than {_MOST_DIGITS} digits, or more than {_MOST_DECIMALS} decimals")


def _text(field: str, value: str | None) -> None:
    if value is not None and _CONTROL.search(value):
        raise Invalid(field, "contains a control character")


def _digest(outcome: Outcome) -> bytes:
    """A fingerprint of what was said, whoever's token it came with, alone or in a batch."""
    said = msgspec.json.encode([getattr(outcome, name) for name in _SAID])
    return hashlib.blake2b(said, digest_size=16).digest()


# ── against the job ──────────────────────────────────────────────────────────────────────────────


class Standing(msgspec.Struct, frozen=True):
    """Where a job stands when a claim comes in."""

    state: State
    locked_by: str | None
    lock_token: UUID | None
    locked_until: datetime | None
    digest: bytes | None = None
    answer: str | None = None


class PastLock(msgspec.Struct, frozen=True):
    """A lock on the job that ended without ending the job; `taken` if not by the bot itself."""

    bot_id: str
    lock_token: UUID | None
    taken: bool
    digest: bytes | None
    answer: str | None


class Accepted(msgspec.Struct, frozen=True):
    """The bot holds the job: its word counts."""


class Repeated(msgspec.Struct, frozen=True):
    """The same was said before: it gets the same answer."""

    answer: str


class Late(msgspec.Struct, frozen=True):
    """The lock was gone: what was submitted is kept aside, never applied."""

    refusal: Refused


Judgement = Accepted | Repeated | Late | Refused


def holds(claim: Claim, job: Standing, now: datetime) -> bool:
    return _is_holder(claim, job) and job.locked_until is not None and now < job.locked_until


def judge(claim: Claim, job: Standing | None, past: Sequence[PastLock], now: datetime) -> Judgement:
    """Whether a claim counts. `past` matters only where the job is not simply held by this bot."""
    if job is None:
        return Refused("job_not_found", f"there is no job {claim.job_id}")
    if holds(claim, job, now):
        return Accepted()
    repeated = _first_answer(claim, job, past)
    if repeated is not None:
        return repeated
    if _is_holder(claim, job):
        return _late(f"the lock ended at {job.locked_until:%Y-%m-%dT%H:%M:%SZ}")
    return _refusal(claim, job, past)


def _is_holder(claim: Claim, job: Standing) -> bool:
    return job.state is State.LOCKED and _own(claim, job.locked_by, job.lock_token)


def _own(claim: Claim, bot_id: str | None, token: UUID | None) -> bool:
    """Whether a lock is the claimant's: by its token if it brought one, else by the bot."""
    return bot_id == claim.bot_id and claim.lock_token in (None, token)


def _first_answer(claim: Claim, job: Standing, past: Sequence[PastLock]) -> Repeated | None:
    locks: list[Standing | PastLock] = [job, *reversed(past)]
    for lock in locks:
        bot_id = lock.locked_by if isinstance(lock, Standing) else lock.bot_id
        if lock.answer is not None and lock.digest == claim.digest and _own(claim, bot_id, lock.lock_token):
            return Repeated(lock.answer)
    return None


def _refusal(claim: Claim, job: Standing, past: Sequence[PastLock]) -> Late | Refused:
    if job.state not in ACTIVE and _own(claim, job.locked_by, job.lock_token):
        if job.state is State.EXPIRED:
            return _late("the lock expired, and the job has no retries left")
        return Refused(
            "invalid_state", f"the job is {job.state} already, and this differs from what ended it"
        )
    own = [lock for lock in past if _own(claim, lock.bot_id, lock.lock_token)]
    if not own:
        return Refused("not_assigned", "the job is not assigned to this bot with this lock; pull it first")
    if own[-1].taken or job.state is not State.PENDING:
        return _late("the lock on this job was lost, and the job has moved on")
    return Refused(
        "invalid_state", "this lock was given back, or its result was taken already; pull the job again"
    )


def _late(why: str) -> Late:
    return Late(Refused("lock_expired", f"{why}; a result is kept aside as a late result"))
