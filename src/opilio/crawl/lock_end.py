"""The rows that the end of a lock writes: gathered first, then written set by set in one transaction."""

from collections.abc import Sequence, Sized
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID

import asyncpg
import msgspec

from opilio.adapters.postgres import ChangedMeanwhileError, Row, Session
from opilio.contracts import events
from opilio.crawl.alert import CrawledPage
from opilio.crawl.finished_job import FinishedRow, StoredPage, UnchangedRow, is_usual
from opilio.crawl.job import Cause, State, apply
from opilio.crawl.politeness import FORGIVEN_AFTER, Cooling
from opilio.crawl.retry import Decision, RetryFacts
from opilio.crawl.sql import QUERIES
from opilio.lock_rules import Claim

_PARK_WHEN_COOLED = 200


class ReturnedJob(msgspec.Struct, frozen=True):
    """A job that goes back to the queue."""

    job_id: UUID
    version: str
    priority: int
    retry_count: int
    run_at: datetime
    error: str | None = None
    error_code: str | None = None


class Step(msgspec.Struct, frozen=True):
    """One timeline row."""

    job_id: UUID
    from_state: State
    to_state: State
    at: datetime
    by: str
    reason: str
    bot_id: str | None = None
    lock_token: UUID | None = None
    digest: bytes | None = None
    answer: bytes | str | None = None


class LateResult(msgspec.Struct, frozen=True):
    claim: Claim
    reason: str
    submission: Any
    at: datetime


@dataclass(slots=True)
class LockEnds:
    """Everything that one transaction writes about locks that ended."""

    finished: list[UnchangedRow] = field(default_factory=list)
    pages: list[StoredPage] = field(default_factory=list)
    returned: dict[UUID, ReturnedJob] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    late: list[LateResult] = field(default_factory=list)
    cooled: dict[int, tuple[Cooling, str]] = field(default_factory=dict)
    freed_hosts: set[int] = field(default_factory=set)
    to_check: list[CrawledPage] = field(default_factory=list)  # by value alerts, where there are any
    forgiven_hosts: set[int] = field(default_factory=set)
    alerts_known: bool = False  # whether there are any was known of all jobs

    def finish(self, row: Row, finished: UnchangedRow) -> None:
        self.finished.append(finished)
        if not finished.looked_up:  # finish_jobs fails if its host has a gate or strikes
            return
        self._free_host(row)
        if row["strikes"] and _is_done(finished):
            self.forgiven_hosts.add(row["host_id"])

    def retry(
        self,
        row: Row,
        decision: Decision,
        by: str,
        reasons: Sequence[str],
        *,
        error: str | None,
        error_code: str | None,
        digest: bytes | None = None,
        answer: bytes | None = None,
    ) -> None:
        """A locked job goes back to the queue for a retry, by one transition or several, each with its reason."""
        assert decision.run_at is not None
        now: datetime = row["at"]
        first, *more = decision.causes
        self.steps += lock_steps(row, first, now, by, reasons[0], digest, answer)
        state = apply(State.LOCKED, first)
        for cause, reason in zip(more, reasons[1:], strict=True):
            self.steps.append(Step(row["job_id"], state, apply(state, cause), now, by, reason))
            state = apply(state, cause)
        self._return(
            ReturnedJob(
                row["job_id"],
                row["version"],
                decision.priority,
                decision.retry_count,
                decision.run_at,
                error,
                error_code,
            )
        )
        self._free_host(row)

    def give_back(
        self,
        row: Row,
        cause: Cause,
        by: str,
        reason: str,
        digest: bytes | None = None,
        answer: bytes | None = None,
    ) -> None:
        """A locked job goes back to the queue at once; a reset also gives it all its retries again."""
        now: datetime = row["at"]
        self.steps += lock_steps(row, cause, now, by, reason, digest, answer)
        reset = cause is Cause.RESET
        priority = row["base_priority"] if reset else row["priority"]
        retries = 0 if reset else row["retry_count"]
        self._return(ReturnedJob(row["job_id"], row["version"], priority, retries, now))
        self._free_host(row)

    def _return(self, job: ReturnedJob) -> None:
        self.returned[job.job_id] = job

    def _free_host(self, row: Row) -> None:
        """A host at its cap may get another job; a host without a gate was never closed."""
        if row["behind_gate"]:
            self.freed_hosts.add(row["host_id"])

    async def write(self, session: Session, now: datetime) -> None:
        if self.steps:
            await session.execute(QUERIES.add_steps, **_steps(self.steps))
        if self.finished:
            await self._finish(session, now)
        if self.returned:
            returned = await session.execute(QUERIES.return_jobs, **_returned(list(self.returned.values())))
            _must_be_all(returned, self.returned)
        if self.late:
            await session.execute(QUERIES.keep_late, **_late(self.late))
        forgiven = sorted(self.forgiven_hosts - self.cooled.keys())
        if forgiven:
            await session.execute(QUERIES.forgive_hosts, host_ids=forgiven)
        if self.cooled:
            await self._cool(session, now)
        if self.freed_hosts:
            await session.execute(QUERIES.reopen_gates, host_ids=sorted(self.freed_hosts), now=now)

    @property
    def is_one_statement(self) -> bool:
        """Whether nothing but finished jobs is written: that statement is a transaction by itself."""
        return not (
            self.steps
            or self.returned
            or self.late
            or self.cooled
            or self.freed_hosts
            or self.forgiven_hosts
            or self.to_check
        )

    async def _finish(self, session: Session, now: datetime) -> None:
        if any(map(_is_done, self.finished)):
            apply(State.LOCKED, Cause.SUCCEED)  # refused where the table of transitions lacks it
        full = [row for row in self.finished if isinstance(row, FinishedRow)]
        usual = not self.pages and all(map(is_usual, full))
        needed = {
            "values": bool(full),
            "rare": not usual,
            "adaptive": any(row.pool is not None for row in full),
        }
        finish = QUERIES.without(
            "finish_jobs", *(part for part, is_needed in needed.items() if not is_needed)
        )
        pages = {} if usual else _pages(self.pages)
        try:
            await session.execute(
                finish, jobs=self.finished, alerts_known=self.alerts_known, now=now, **pages
            )
        except asyncpg.DivisionByZeroError:
            raise ChangedMeanwhileError("some of the jobs are not as they were read") from None

    async def _cool(self, session: Session, now: datetime) -> None:
        await session.execute(
            QUERIES.cool_hosts, forgiven_before=now - FORGIVEN_AFTER, **_cooled(self.cooled)
        )
        await session.execute(QUERIES.keep_cooling, host_ids=sorted(self.cooled), now=now)
        for host_id in sorted(self.cooled):
            # Its waiting jobs move behind its gate now, as far as `skipped` counts; the scheduler moves the rest.
            await session.execute(QUERIES.park_jobs, host_id=host_id, most=_PARK_WHEN_COOLED, now=now)
        await session.execute(QUERIES.close_cooling_gates, host_ids=sorted(self.cooled))


def _is_done(row: UnchangedRow) -> bool:
    return not isinstance(row, FinishedRow) or row.state is None


def _must_be_all(written: int, meant: Sized) -> None:
    """Somebody changed a job between reading and writing: nothing of this transaction may stay."""
    if written != len(meant):
        raise ChangedMeanwhileError(f"{written} of {len(meant)} jobs were still as they had been read")


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=256)
def _hours(count: float) -> timedelta:
    return timedelta(hours=count)


@lru_cache(maxsize=256)
def _minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def frequency_of(row: Row) -> timedelta:
    return _hours(row["frequency_hours"])


def retry_facts(row: Row) -> RetryFacts:
    return RetryFacts(
        base_priority=row["base_priority"],
        retry_count=row["retry_count"],
        max_retries=0 if row["deleted_at"] else row["max_retries"],  # a deleted policy needs no retries
        frequency=frequency_of(row),
        retry_backoff=_minutes(row["retry_backoff_minutes"]),
        failure_count=row["failure_count"],
        error_rate=row["error_rate"],
    )


def lock_steps(
    row: Row,
    cause: Cause,
    now: datetime,
    by: str,
    reason: str,
    digest: bytes | None = None,
    answer: bytes | str | None = None,
) -> list[Step]:
    """The lock and its end as timeline rows, because the job's own row keeps only the current lock."""
    job_id, bot = row["job_id"], row["locked_by"]
    locked = apply(State.PENDING, Cause.PULL)
    ended = apply(locked, cause)
    return [
        Step(job_id, State.PENDING, locked, row["locked_at"], f"bot:{bot}", "pulled"),
        Step(job_id, locked, ended, now, by, reason, bot, row["lock_token"], digest, answer),
    ]


def failed_event(row: Row, decision: Decision, error: str | None, error_code: str | None) -> events.JobFailed:
    assert decision.next_run_at is not None
    return events.JobFailed(
        job_id=row["job_id"],
        policy_id=row["policy_id"],
        url=row["url"],
        reason="expired" if decision.state is State.EXPIRED else "failed",
        error_code=error_code,
        error_msg=error,
        retry_count=row["retry_count"],
        max_retries=row["max_retries"],
        failure_count=decision.failure_count,
        policy_next_run=decision.next_run_at,
        bot_id=row["locked_by"],
    )


# ── columns ──────────────────────────────────────────────────────────────────────────────────────


def _raw(answer: bytes | str | None) -> msgspec.Raw | None:
    return None if answer is None else msgspec.Raw(answer)


def _steps(steps: Sequence[Step]) -> dict[str, list[Any]]:
    return {
        "job_ids": [s.job_id for s in steps],
        "from_states": [s.from_state for s in steps],
        "to_states": [s.to_state for s in steps],
        "ats": [s.at for s in steps],
        "by": [s.by for s in steps],
        "reasons": [s.reason for s in steps],
        "bots": [s.bot_id for s in steps],
        "tokens": [s.lock_token for s in steps],
        "digests": [s.digest for s in steps],
        "answers": [_raw(s.answer) for s in steps],
    }


def _pages(pages: Sequence[StoredPage]) -> dict[str, list[Any]]:
    """Pages may be large, and are not part of the JSON."""
    return {
        "page_ids": [page.result_id for page in pages],
        "page_bodies": [page.body for page in pages],
        "page_blobs": [page.blob for page in pages],
    }


def _returned(jobs: Sequence[ReturnedJob]) -> dict[str, list[Any]]:
    return {
        "job_ids": [j.job_id for j in jobs],
        "versions": [j.version for j in jobs],
        "priorities": [j.priority for j in jobs],
        "retry_counts": [j.retry_count for j in jobs],
        "run_ats": [j.run_at for j in jobs],
        "errors": [j.error for j in jobs],
        "error_codes": [j.error_code for j in jobs],
    }


def _late(late: Sequence[LateResult]) -> dict[str, list[Any]]:
    return {
        "job_ids": [item.claim.job_id for item in late],
        "bots": [item.claim.bot_id for item in late],
        "tokens": [item.claim.lock_token for item in late],
        "reasons": [item.reason for item in late],
        "submissions": [item.submission for item in late],
        "digests": [item.claim.digest for item in late],
        "ats": [item.at for item in late],
    }


def _cooled(cooled: dict[int, tuple[Cooling, str]]) -> dict[str, list[Any]]:
    hosts = sorted(cooled)
    return {
        "host_ids": hosts,
        "untils": [cooled[h][0].until for h in hosts],
        "strikes": [cooled[h][0].strikes for h in hosts],
        "reasons": [cooled[h][1] for h in hosts],
    }
