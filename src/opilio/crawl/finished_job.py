"""Jobs that end, and the rows of them that one statement reads: as JSON, which PostgreSQL decodes (decision 24)."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from opilio.adapters.postgres import Row
from opilio.contracts.bot_api import Validators
from opilio.crawl.adaptive.reschedule import Rescheduled, pack_hours
from opilio.crawl.history import Values
from opilio.crawl.retry import Decision

_NO_VALUES = Values()


class StoredResult(msgspec.Struct, frozen=True):
    result_id: UUID
    values: Values
    data: Any
    html_hash: str | None
    duration: float | None
    html_body: str | None
    html_blob: str | None


class FinishedJob(msgspec.Struct, frozen=True):
    """A job that ends."""

    row: Row
    decision: Decision
    by: str
    reason: str
    event_type: str
    event: Any
    last_data: Any = None
    error: str | None = None
    error_code: str | None = None
    result: StoredResult | None = None
    digest: bytes | None = None
    answer: bytes | None = None
    html_hash: str | None = None
    validators: Validators = Validators()
    rescheduled: Rescheduled | None = None
    """Set for a visit of an adaptive policy."""


class FinishedRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A row of `finish_jobs`: what is not said is null. Bytes are written in base64."""

    job_id: UUID
    policy_id: UUID
    state: str
    by: str
    reason: str
    error: str | None = None
    error_code: str | None = None
    next_run_at: datetime | None = None
    failure_count: int
    error_rate: float
    result_id: UUID | None = None
    price: Decimal | None = None
    currency: str | None = None
    title: str | None = None
    in_stock: bool | None = None
    data: Any = None
    html_hash: str | None = None
    duration: float | None = None
    last_data: Any = None
    digest: bytes | None = None
    answer: msgspec.Raw | None = None
    event_type: str
    subject: str
    event: Any = None
    pool: str | None = None
    early_at: datetime | None = None
    etag: str | None = None
    last_modified: str | None = None
    rate_shape: float | None = None
    rate_days: float | None = None
    daily_hours: bytes | None = None
    interval_days: float | None = None
    price_used: float | None = None
    visits: int
    changes_seen: int
    surprise: float | None = None
    gap_days: float | None = None
    siblings: bool = False


def finished_rows(jobs: Sequence[FinishedJob]) -> dict[str, Any]:
    """The parameters of `finish_jobs`. Pages, which may be large, are not part of the JSON."""
    pages = [
        result
        for job in jobs
        if (result := job.result) and (result.html_body is not None or result.html_blob is not None)
    ]
    return {
        "jobs": [_row(job) for job in jobs],
        "page_ids": [page.result_id for page in pages],
        "page_bodies": [page.html_body for page in pages],
        "page_blobs": [page.html_blob for page in pages],
    }


def _row(job: FinishedJob) -> FinishedRow:
    row, decision, result, visit = job.row, job.decision, job.result, job.rescheduled
    values = result.values if result else _NO_VALUES
    learnt = visit.learnt if visit else None
    changed = bool(visit and visit.changed)
    return FinishedRow(
        job_id=row["job_id"],
        policy_id=row["policy_id"],
        state=decision.state,
        by=job.by,
        reason=job.reason,
        error=job.error,
        error_code=job.error_code,
        next_run_at=decision.next_run_at,
        failure_count=decision.failure_count,
        error_rate=decision.error_rate,
        result_id=result.result_id if result else None,
        price=values.price,
        currency=values.currency,
        title=values.title,
        in_stock=values.in_stock,
        data=result.data if result else None,
        html_hash=job.html_hash,
        duration=result.duration if result else None,
        last_data=job.last_data,
        digest=job.digest,
        answer=None if job.answer is None else msgspec.Raw(job.answer),
        event_type=job.event_type,
        subject=row["url"],
        event=job.event,
        pool=row["pool"],
        early_at=visit.early_at if visit else None,
        etag=job.validators.etag,
        last_modified=job.validators.last_modified,
        rate_shape=learnt.evidence.shape if learnt else None,
        rate_days=learnt.evidence.days if learnt else None,
        daily_hours=pack_hours(learnt.hours) if learnt and learnt.hours else None,
        interval_days=visit.interval_days if visit else None,
        price_used=visit.price if visit else None,
        visits=int(learnt is not None),
        changes_seen=int(changed),
        surprise=learnt.surprise if learnt else None,
        gap_days=visit.gap_days if visit else None,
        siblings=changed and row["siblings"] is not None,
    )
