"""The jobs of the fake control plane: the same transitions and refusals as the real one, in memory."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import msgspec

from opilio.bot.errors import Refused
from opilio.contracts.bot_api import (
    DoneAnswer,
    FailedAnswer,
    HeartbeatAnswer,
    HeldJob,
    Outcome,
    PulledJob,
    PullRequest,
    ReleaseAnswer,
    RetryAnswer,
)
from opilio.contracts.codes import worth_retrying
from opilio.contracts.envelope import STATUS_OF
from opilio.contracts.price import read_price

Status = Literal["pending", "locked", "done", "failed", "expired"]
Answer = DoneAnswer | RetryAnswer | FailedAnswer

_LONGEST_LOCK = 10


@dataclass(eq=False, slots=True, kw_only=True)
class FakeJob:
    """One job, readable by tests; `outcome` is the last submit."""

    url: str
    queue: str
    priority: int
    crawl_config: dict[str, Any]
    rule_set: Any
    max_retries: int
    timeout_seconds: float
    job_id: UUID = field(default_factory=uuid4)
    status: Status = "pending"
    retry_count: int = 0
    locked_by: str | None = None
    locked_at: datetime | None = None
    locked_until: datetime | None = None
    lock_token: UUID | None = None
    outcome: Outcome | None = None
    heartbeats: int = 0
    releases: int = 0
    late: list[Outcome] = field(default_factory=list)
    answered: dict[tuple[UUID | None, bytes], Answer] = field(default_factory=dict)

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def final(self) -> bool:
        return self.status in ("done", "failed") or (
            self.status == "expired" and self.retry_count >= self.max_retries
        )

    def handed_out(self) -> PulledJob:
        assert self.locked_until is not None
        assert self.lock_token is not None
        return PulledJob(
            job_id=self.job_id,
            url=self.url,
            priority=self.priority,
            queue=self.queue,
            crawl_config=self.crawl_config,
            rule_set=self.rule_set,
            max_retries=self.max_retries,
            retry_count=self.retry_count,
            timeout_seconds=self.timeout_seconds,
            locked_until=self.locked_until,
            lock_token=self.lock_token,
        )


class JobTable:
    """All jobs and the clock, which tests move with `skip`."""

    def __init__(self) -> None:
        self.jobs: dict[UUID, FakeJob] = {}
        # Unfinished jobs, so that thousands of finished ones do not slow down a pull.
        self.open: dict[UUID, FakeJob] = {}
        self.skipped = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.skipped

    def add(self, job: FakeJob) -> None:
        self.jobs[job.job_id] = self.open[job.job_id] = job

    def pull(self, request: PullRequest) -> tuple[list[FakeJob], int]:
        """Locks matching jobs for the bot, and counts matching jobs that other bots hold."""
        self._expire()
        fitting = list(self._fitting(request))
        pending = [job for job in fitting if job.status == "pending"]
        pending.sort(key=lambda job: -job.priority)
        taken = pending[: request.max_jobs]
        for job in taken:
            self._lock(job, request.bot_id)
        held = sum(job.status == "locked" and job.locked_by != request.bot_id for job in fitting)
        return taken, min(held, 100)

    def has_pending(self, request: PullRequest) -> bool:
        self._expire()
        return any(job.status == "pending" for job in self._fitting(request))

    def submit(self, bot_id: str, outcome: Outcome) -> Answer:
        job = self._find(outcome.job_id)
        said = (outcome.lock_token, msgspec.json.encode(outcome))
        if said in job.answered:
            return job.answered[said]
        self._check_holder(job, bot_id, outcome.lock_token, outcome)
        _check_complete(outcome)
        job.outcome = outcome
        job.answered[said] = answer = self._apply(job, outcome)
        return answer

    def heartbeat(self, bot_id: str, held: HeldJob) -> HeartbeatAnswer:
        job = self._find(held.job_id)
        self._check_holder(job, bot_id, held.lock_token)
        assert job.locked_at is not None
        assert job.locked_until is not None
        longest = job.locked_at + timedelta(seconds=job.timeout_seconds * _LONGEST_LOCK)
        job.locked_until = min(self.now() + timedelta(seconds=job.timeout_seconds), longest)
        job.heartbeats += 1
        return HeartbeatAnswer(locked_until=job.locked_until)

    def release(self, bot_id: str, held: HeldJob) -> ReleaseAnswer:
        job = self._find(held.job_id)
        self._check_holder(job, bot_id, held.lock_token)
        job.releases += 1
        self._free(job, "pending")
        return ReleaseAnswer()

    def _fitting(self, request: PullRequest) -> Iterator[FakeJob]:
        domain = (request.domain or "").lower()
        for job in self.open.values():
            fits_domain = not domain or job.host == domain or job.host.endswith(f".{domain}")
            if fits_domain and job.queue in request.capabilities:
                yield job

    def _lock(self, job: FakeJob, bot_id: str) -> None:
        job.status, job.locked_by, job.lock_token = "locked", bot_id, uuid4()
        job.locked_at = self.now()
        job.locked_until = job.locked_at + timedelta(seconds=job.timeout_seconds)

    def _free(self, job: FakeJob, status: Status) -> None:
        job.status, job.locked_by, job.locked_until = status, None, None
        if job.final:
            self.open.pop(job.job_id, None)

    def _expire(self) -> None:
        for job in list(self.open.values()):
            self._expire_one(job)

    def _expire_one(self, job: FakeJob) -> None:
        if job.status == "locked" and job.locked_until is not None and job.locked_until <= self.now():
            has_retries = job.retry_count < job.max_retries
            job.retry_count += has_retries
            self._free(job, "pending" if has_retries else "expired")

    def _apply(self, job: FakeJob, outcome: Outcome) -> Answer:
        if outcome.success:
            self._free(job, "done")
            return DoneAnswer(
                result_id=uuid4(),
                job_id=job.job_id,
                price=read_price(outcome.price),
                currency=outcome.currency,
                policy_next_run=self.now() + timedelta(hours=24),
            )
        if job.retry_count < job.max_retries and worth_retrying(outcome.error_code):
            job.retry_count += 1
            self._free(job, "pending")
            return RetryAnswer(
                job_id=job.job_id,
                retry_count=job.retry_count,
                max_retries=job.max_retries,
                message="will be retried",
            )
        self._free(job, "failed")
        return FailedAnswer(
            job_id=job.job_id,
            retry_count=job.retry_count,
            max_retries=job.max_retries,
            message="no retries left",
            policy_next_run=self.now() + timedelta(minutes=5),
        )

    def _find(self, job_id: UUID) -> FakeJob:
        job = self.jobs.get(job_id)
        if job is None:
            raise refusal("job_not_found", f"there is no job {job_id}")
        self._expire_one(job)
        return job

    def _check_holder(
        self, job: FakeJob, bot_id: str, token: UUID | None, late: Outcome | None = None
    ) -> None:
        """Refuses a bot that does not hold the lock, with the same precedence as the server."""
        if job.status == "locked" and job.locked_by != bot_id and token != job.lock_token:
            code, message = "not_assigned", "the job is locked by another bot"
        elif job.status == "locked" and job.locked_by == bot_id and token in (None, job.lock_token):
            return
        elif job.status in ("done", "failed"):
            code, message = "invalid_state", f"the job is already {job.status}"
        else:
            code, message = "lock_expired", "the lock has expired"
        if late is not None:
            job.late.append(late)
        raise refusal(code, message)


def refusal(code: str, message: str, details: Any = None) -> Refused:
    return Refused(STATUS_OF[code], code, message, details)


def _check_complete(outcome: Outcome) -> None:
    try:
        read_price(outcome.price)
    except ValueError as error:
        raise refusal("validation_error", f"price {error}") from None
    priced = bytes(outcome.price) != b"null" and outcome.currency is not None
    if outcome.success and not priced and not outcome.data:
        raise refusal("validation_error", "a success needs price and currency, or data")
