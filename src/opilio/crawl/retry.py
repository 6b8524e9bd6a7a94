"""What becomes of a job whose lock ended, and of the policy behind it."""

from datetime import datetime, timedelta

import msgspec

from opilio.backoff import doubling, jittered
from opilio.contracts.codes import worth_retrying
from opilio.crawl.job import State, retry_priority

# How much the newest crawl weighs in a policy's error rate.
_NEWEST = 0.2


class Attempt(msgspec.Struct, frozen=True):
    """The facts about a held job that decide what comes next."""

    base_priority: int
    retry_count: int
    max_retries: int
    frequency: timedelta
    retry_backoff: timedelta
    failure_count: int
    error_rate: float


class Verdict(msgspec.Struct, frozen=True):
    """Where the job goes, and what the policy remembers."""

    state: State
    retry_count: int
    priority: int
    run_at: datetime | None
    next_run_at: datetime | None
    failure_count: int
    error_rate: float

    @property
    def retried(self) -> bool:
        return self.state is State.PENDING


class Chance(msgspec.Struct, frozen=True):
    """Jitter: its share, and a number in [0, 1) drawn by the caller, so that rules stay pure."""

    share: float
    draw: float


def succeed(attempt: Attempt, now: datetime, chance: Chance) -> Verdict:
    return Verdict(
        state=State.DONE,
        retry_count=attempt.retry_count,
        priority=retry_priority(attempt.base_priority, attempt.retry_count),
        run_at=None,
        next_run_at=now + jittered(attempt.frequency, chance.share, chance.draw),
        failure_count=0,
        error_rate=attempt.error_rate * (1 - _NEWEST),
    )


def fail(attempt: Attempt, now: datetime, chance: Chance, error_code: str | None, wait: timedelta) -> Verdict:
    """A reported failure: tried again after at least `wait`, unless the code says that this is pointless."""
    if attempt.retry_count < attempt.max_retries and worth_retrying(error_code):
        return _again(attempt, now, chance, wait)
    return _give_up(attempt, now, chance, State.FAILED)


def expire(attempt: Attempt, now: datetime, chance: Chance) -> Verdict:
    """The lock ran out: counts as a retry; with none left the job stays EXPIRED for good."""
    if attempt.retry_count < attempt.max_retries:
        return _again(attempt, now, chance, timedelta(0))
    return _give_up(attempt, now, chance, State.EXPIRED)


def _again(attempt: Attempt, now: datetime, chance: Chance, wait: timedelta) -> Verdict:
    retries = attempt.retry_count + 1
    backoff = jittered(doubling(attempt.retry_backoff, retries, attempt.frequency), chance.share, chance.draw)
    return Verdict(
        state=State.PENDING,
        retry_count=retries,
        priority=retry_priority(attempt.base_priority, retries),
        run_at=now + max(backoff, wait),
        next_run_at=None,
        failure_count=attempt.failure_count,
        error_rate=attempt.error_rate,
    )


def _give_up(attempt: Attempt, now: datetime, chance: Chance, state: State) -> Verdict:
    failures = attempt.failure_count + 1
    backoff = doubling(attempt.retry_backoff, failures, attempt.frequency)
    return Verdict(
        state=state,
        retry_count=attempt.retry_count,
        priority=retry_priority(attempt.base_priority, attempt.retry_count),
        run_at=None,
        # Jitter must not carry a backoff past the frequency: a failing page is never visited less often than a good one.
        next_run_at=now + min(jittered(backoff, chance.share, chance.draw), attempt.frequency),
        failure_count=failures,
        error_rate=attempt.error_rate * (1 - _NEWEST) + _NEWEST,
    )
