"""What comes after the end of a lock: for the job, and for its policy.

Jitter is a share of each wait that is added to it; the caller draws it, so that rules stay pure.
"""

from datetime import UTC, datetime, timedelta

import msgspec

from opilio.backoff import doubling, jittered
from opilio.contracts.codes import worth_retrying
from opilio.crawl.job import Cause, State, apply, retry_priority

# How much the newest crawl weighs in a policy's error rate.
_NEWEST = 0.2


class RetryFacts(msgspec.Struct, frozen=True):
    """The facts about a locked job that decide what comes next."""

    base_priority: int
    retry_count: int
    max_retries: int
    frequency: timedelta
    retry_backoff: timedelta
    failure_count: int
    error_rate: float


class Decision(msgspec.Struct, frozen=True):
    """The transitions of the job, and what the policy stores."""

    causes: tuple[Cause, ...]
    state: State
    """The job's state after all transitions of a locked job."""
    failure_count: int
    error_rate: float
    next_run_at: datetime | None = None
    """Of the policy, if the job ends; the others are of a job that is tried again."""
    run_at: datetime | None = None
    retry_count: int = 0
    priority: int = 0

    @property
    def retried(self) -> bool:
        return self.run_at is not None


def next_run(hours: float, now: float, jitter: float) -> datetime:
    """When a page with a fixed schedule is crawled again after a success; `now` is in seconds since 1970."""
    return datetime.fromtimestamp(now + hours * 3600 * (1 + jitter), UTC)


def succeed(error_rate: float) -> float:
    """The error rate of a policy after a success."""
    return error_rate * (1 - _NEWEST)


def fail(job: RetryFacts, now: datetime, jitter: float, error_code: str | None, wait: timedelta) -> Decision:
    """A reported failure: retried after at least `wait`, unless the error code is not retryable."""
    if job.retry_count < job.max_retries and worth_retrying(error_code):
        return _retry(job, now, jitter, wait, Cause.RETRY)
    return _give_up(job, now, jitter, Cause.FAIL)


def expire(job: RetryFacts, now: datetime, jitter: float) -> Decision:
    """The lock's TTL passed: counts as a retry; with none left the job stays EXPIRED."""
    if job.retry_count < job.max_retries:
        return _retry(job, now, jitter, timedelta(0), Cause.EXPIRE, Cause.RECOVER)
    return _give_up(job, now, jitter, Cause.EXPIRE)


def _retry(job: RetryFacts, now: datetime, jitter: float, wait: timedelta, *causes: Cause) -> Decision:
    retries = job.retry_count + 1
    backoff = jittered(doubling(job.retry_backoff, retries, job.frequency), jitter)
    return Decision(
        causes=causes,
        state=apply(State.LOCKED, *causes),
        failure_count=job.failure_count,
        error_rate=job.error_rate,
        run_at=now + max(backoff, wait),
        retry_count=retries,
        priority=retry_priority(job.base_priority, retries),
    )


def _give_up(job: RetryFacts, now: datetime, jitter: float, cause: Cause) -> Decision:
    failures = job.failure_count + 1
    backoff = doubling(job.retry_backoff, failures, job.frequency)
    return Decision(
        causes=(cause,),
        state=apply(State.LOCKED, cause),
        failure_count=failures,
        error_rate=job.error_rate * (1 - _NEWEST) + _NEWEST,
        # Jitter must not push a backoff past the frequency: a failing page is never crawled less often than a good one.
        next_run_at=now + min(jittered(backoff, jitter), job.frequency),
    )
