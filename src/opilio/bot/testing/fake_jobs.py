"""The jobs of the fake control plane: the same transitions and refusals as the real one, in memory.

One thing differs: a job that is to be tried again is due at once, so that tests need not wait for its backoff.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import msgspec

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
from opilio.contracts.outcome_checks import check_outcome, digest
from opilio.errors import Invalid, Refused
from opilio.lock_rules import Accepted, Claim, JobLock, Late, PastLock, Repeated, check

Status = Literal["pending", "locked", "done", "failed", "expired"]
Answer = DoneAnswer | RetryAnswer | FailedAnswer

_LONGEST_LOCK = 10
_RELEASE = b"release"
_HOST_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*|[0-9.]+|\[?[0-9a-f:]+\]?")
_encode = msgspec.json.Encoder(decimal_format="number").encode


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
    last_values: tuple[UUID | None, Decimal | None, str | None] = (None, None, None)
    past: list[PastLock] = field(default_factory=list)
    ended: JobLock | None = None

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def current_priority(self) -> int:
        """Each retry costs a tenth of the priority, as on the server."""
        if self.retry_count == 0:
            return self.priority
        return max(1, self.priority * (10 - min(self.retry_count, 10)) // 10)

    @property
    def lock(self) -> JobLock:
        """The lock that claims are checked against."""
        if self.ended is not None:
            return self.ended
        if self.status == "locked":
            return JobLock("locked", self.locked_by, self.lock_token, self.locked_until)
        return JobLock("pending", None, None, None)

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
            priority=self.current_priority,
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
        pending.sort(key=lambda job: -job.current_priority)
        taken = pending[: request.max_jobs]
        for job in taken:
            self._lock(job, request.bot_id)
        held = sum(job.status == "locked" and job.locked_by != request.bot_id for job in fitting)
        return taken, min(held, 100)

    def has_pending(self, request: PullRequest) -> bool:
        self._expire()
        return any(job.status == "pending" for job in self._fitting(request))

    def submit(self, bot_id: str, outcome: Outcome) -> Any:
        price = check_outcome(outcome)
        claim = Claim(bot_id, outcome.job_id, outcome.lock_token, digest(outcome))
        job, repeated = self._claimed(claim, outcome)
        if repeated is not None:
            return repeated
        job.outcome = outcome
        answer = self._apply(job, outcome, price)
        self._end(job, answer.status, claim.digest, _encode(answer))
        return msgspec.Raw(_encode(answer))

    def heartbeat(self, bot_id: str, held: HeldJob) -> HeartbeatAnswer:
        job, _ = self._claimed(Claim(bot_id, held.job_id, held.lock_token, b""))
        assert job.locked_at is not None
        assert job.locked_until is not None
        longest = job.locked_at + timedelta(seconds=job.timeout_seconds * _LONGEST_LOCK)
        extended = min(self.now() + timedelta(seconds=job.timeout_seconds), longest)
        job.locked_until = max(job.locked_until, extended)
        job.heartbeats += 1
        return HeartbeatAnswer(locked_until=job.locked_until)

    def release(self, bot_id: str, held: HeldJob) -> Any:
        job, repeated = self._claimed(Claim(bot_id, held.job_id, held.lock_token, _RELEASE))
        if repeated is not None:
            return repeated
        job.releases += 1
        self._end(job, "pending", _RELEASE, _encode(ReleaseAnswer()))
        return ReleaseAnswer()

    def _fitting(self, request: PullRequest) -> Iterator[FakeJob]:
        domain = host_name(request.domain) if request.domain is not None else ""
        for job in list(self.open.values()):
            fits_domain = not domain or job.host == domain or job.host.endswith(f".{domain}")
            if fits_domain and job.queue in request.capabilities:
                yield job

    def _lock(self, job: FakeJob, bot_id: str) -> None:
        job.status, job.locked_by, job.lock_token = "locked", bot_id, uuid4()
        job.locked_at = self.now()
        job.locked_until = job.locked_at + timedelta(seconds=job.timeout_seconds)

    def _end(
        self, job: FakeJob, status: Status, said: bytes | None, answer: bytes | None, *, lost: bool = False
    ) -> None:
        """The lock ends: the job is pending again, or stays as it ended."""
        assert job.locked_by is not None
        text = None if answer is None else answer.decode()
        if status == "pending":
            job.past.append(PastLock(job.locked_by, job.lock_token, lost, said, text))
        else:
            job.ended = JobLock(status, job.locked_by, job.lock_token, job.locked_until, said, text)
            self.open.pop(job.job_id, None)
        job.status, job.locked_by, job.locked_until = status, None, None

    def _expire(self) -> None:
        for job in list(self.open.values()):
            self._expire_one(job)

    def _expire_one(self, job: FakeJob) -> None:
        if job.status == "locked" and job.locked_until is not None and job.locked_until <= self.now():
            has_retries = job.retry_count < job.max_retries
            job.retry_count += has_retries
            self._end(job, "pending" if has_retries else "expired", None, None, lost=True)

    def _apply(self, job: FakeJob, outcome: Outcome, price: Decimal | None) -> Answer:
        if outcome.success:
            if not outcome.not_modified:
                currency = outcome.currency.upper() if outcome.currency else None
                job.last_values = (uuid4(), price, currency)
            result_id, price, currency = job.last_values
            return DoneAnswer(
                result_id=result_id,
                job_id=job.job_id,
                price=price,
                currency=currency,
                policy_next_run=self.now() + timedelta(hours=24),
            )
        retryable = worth_retrying(outcome.error_code)
        if job.retry_count < job.max_retries and retryable:
            job.retry_count += 1
            return RetryAnswer(
                job_id=job.job_id,
                retry_count=job.retry_count,
                max_retries=job.max_retries,
                message=f"the job will be tried again at {self.now():%Y-%m-%dT%H:%M:%SZ}",
            )
        return FailedAnswer(
            job_id=job.job_id,
            retry_count=job.retry_count,
            max_retries=job.max_retries,
            message="no retries are left" if retryable else f"{outcome.error_code} is not worth a retry",
            policy_next_run=self.now() + timedelta(minutes=5),
        )

    def _claimed(self, claim: Claim, outcome: Outcome | None = None) -> tuple[FakeJob, Any]:
        """The job that the bot holds, or the answer that the same request got before; else a refusal."""
        job = self.jobs.get(claim.job_id)
        if job is not None:
            self._expire_one(job)
        match check(claim, job.lock if job else None, job.past if job else [], self.now()):
            case Repeated(answer):
                assert job is not None
                return job, msgspec.Raw(answer.encode())
            case Accepted():
                assert job is not None
                return job, None
            case Late(refusal):
                if outcome is not None and job is not None:
                    job.late.append(outcome)
                raise refusal
            case Refused() as refusal:
                raise refusal


def host_name(text: str) -> str:
    name = text.strip().lower().removesuffix(".")
    if not _HOST_NAME.fullmatch(name):
        raise Invalid("domain", "must be a host name such as example.com, without scheme or path")
    return name
