"""What one transaction will write about jobs whose locks ended, gathered first and written set by set."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from opilio.adapters.postgres import Row, Session, load_queries
from opilio.crawl.history import Change, Values
from opilio.crawl.job import State
from opilio.crawl.politeness import Cooling
from opilio.crawl.retry import Verdict
from opilio.crawl.submission import Claim

QUERIES = load_queries("opilio.crawl")


class Finish(msgspec.Struct, frozen=True):
    """A job that ends."""

    row: Row
    verdict: Verdict
    by: str
    reason: str
    event_type: str
    event: Any
    last_data: Any = None
    error: str | None = None
    error_code: str | None = None
    result: "Result | None" = None
    digest: bytes | None = None
    answer: bytes | None = None


class Result(msgspec.Struct, frozen=True):
    result_id: UUID
    bot_id: str
    values: Values
    data: Any
    html_hash: str | None
    duration: float | None
    html_body: str | None
    html_blob: str | None


class Return(msgspec.Struct, frozen=True):
    """A job that goes back to the queue."""

    job_id: UUID
    priority: int
    retry_count: int
    run_at: datetime
    error: str | None = None
    error_code: str | None = None


class Step(msgspec.Struct, frozen=True):
    """A line of a job's timeline that its row is about to forget."""

    job_id: UUID
    was: State
    to: State
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
class Ledger:
    finished: list[Finish] = field(default_factory=list)
    returned: list[Return] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    changed: list[tuple[Row, Change]] = field(default_factory=list)
    late: list[LateResult] = field(default_factory=list)
    cooled: dict[int, tuple[Cooling, str]] = field(default_factory=dict)
    freed_hosts: set[int] = field(default_factory=set)

    async def write(self, session: Session, now: datetime) -> None:
        if self.steps:
            await session.execute(QUERIES.add_steps, **_steps(self.steps))
        if self.finished:
            await session.execute(QUERIES.finish_jobs, now=now, **_finishes(self.finished))
        if self.returned:
            await session.execute(QUERIES.return_jobs, **_returns(self.returned))
        if self.changed:
            await session.execute(QUERIES.add_changes, **_changes(self.changed, now))
        if self.late:
            await session.execute(QUERIES.keep_late, **_late(self.late))
        if self.cooled:
            await session.execute(QUERIES.cool_hosts, **_cooled(self.cooled))
        if self.freed_hosts:
            await session.execute(QUERIES.reopen_gates, host_ids=sorted(self.freed_hosts), now=now)


def _raw(answer: bytes | str | None) -> msgspec.Raw | None:
    return None if answer is None else msgspec.Raw(answer)


def _steps(steps: Sequence[Step]) -> dict[str, list[Any]]:
    return {
        "job_ids": [s.job_id for s in steps],
        "from_states": [s.was for s in steps],
        "to_states": [s.to for s in steps],
        "ats": [s.at for s in steps],
        "by": [s.by for s in steps],
        "reasons": [s.reason for s in steps],
        "bots": [s.bot_id for s in steps],
        "tokens": [s.lock_token for s in steps],
        "digests": [s.digest for s in steps],
        "answers": [_raw(s.answer) for s in steps],
    }


def _finishes(ends: Sequence[Finish]) -> dict[str, list[Any]]:
    results = [end.result for end in ends]
    found = [r.values if r else Values() for r in results]
    return {
        "job_ids": [e.row["job_id"] for e in ends],
        "policy_ids": [e.row["policy_id"] for e in ends],
        "states": [e.verdict.state for e in ends],
        "by": [e.by for e in ends],
        "reasons": [e.reason for e in ends],
        "errors": [e.error for e in ends],
        "error_codes": [e.error_code for e in ends],
        "next_runs": [e.verdict.next_run_at for e in ends],
        "failure_counts": [e.verdict.failure_count for e in ends],
        "error_rates": [e.verdict.error_rate for e in ends],
        "result_ids": [r.result_id if r else None for r in results],
        "bots": [r.bot_id if r else None for r in results],
        "prices": [v.price for v in found],
        "currencies": [v.currency for v in found],
        "titles": [v.title for v in found],
        "in_stocks": [v.in_stock for v in found],
        "datas": [r.data if r else None for r in results],
        "html_hashes": [r.html_hash if r else None for r in results],
        "durations": [r.duration if r else None for r in results],
        "html_bodies": [r.html_body if r else None for r in results],
        "html_blobs": [r.html_blob if r else None for r in results],
        "last_datas": [e.last_data for e in ends],
        "digests": [e.digest for e in ends],
        "answers": [_raw(e.answer) for e in ends],
        "event_types": [e.event_type for e in ends],
        "subjects": [e.row["url"] for e in ends],
        "events": [e.event for e in ends],
    }


def _returns(returns: Sequence[Return]) -> dict[str, list[Any]]:
    return {
        "job_ids": [r.job_id for r in returns],
        "priorities": [r.priority for r in returns],
        "retry_counts": [r.retry_count for r in returns],
        "run_ats": [r.run_at for r in returns],
        "errors": [r.error for r in returns],
        "error_codes": [r.error_code for r in returns],
    }


def _changes(changed: Sequence[tuple[Row, Change]], now: datetime) -> dict[str, list[Any]]:
    return {
        "policy_ids": [row["policy_id"] for row, _ in changed],
        "job_ids": [row["job_id"] for row, _ in changed],
        "fields": [change.field for _, change in changed],
        "olds": [change.old for _, change in changed],
        "news": [change.new for _, change in changed],
        "ats": [now for _ in changed],
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
