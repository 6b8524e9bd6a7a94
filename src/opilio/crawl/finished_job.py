"""Jobs that end, as the rows that one statement reads: as JSON, which PostgreSQL decodes (decision 24)."""

from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from opilio.adapters.postgres import Row
from opilio.contracts import events
from opilio.crawl.job import State
from opilio.crawl.retry import Decision

_encode = msgspec.json.Encoder(decimal_format="number").encode


class UnchangedRow(msgspec.Struct, omit_defaults=True):
    """A row of `finish_jobs` that says all there is of nearly every crawl: a job with a result in which nothing is new.

    What is not said is null, or what it usually is. Bytes are written in base64.
    """

    row_at: str
    """Where the job's row lay when it was read: found again without an index."""
    version: str
    """Of that row."""
    job_id: UUID
    """A table that is rewritten (`vacuum full`) keeps versions, but not places."""
    next_run: float
    """Of the policy, in seconds since 1970: PostgreSQL reads a number sooner than a date."""
    subject: str
    error_rate: float | None = None
    """Left out: none of its crawls failed."""
    digest: bytes | None = None
    looked_up: bool = False
    """Whether all this follows from what was read now, not from what was read when the job was locked."""
    result_id: UUID | None = None
    html_hash: str | None = None
    duration: float | None = None
    etag: str | None = None
    last_modified: str | None = None
    as_before: bool = False
    """Price, currency, title and stock are the last ones, to the digit, which the job's row has."""


class FinishedRow(UnchangedRow, kw_only=True):
    """Any row of `finish_jobs`.

    What is JSON itself is text, which the statement casts: PostgreSQL takes three times as long for a value within the JSON.
    """

    state: State | None = None
    """Left out: done."""
    failure_count: int = 0
    by: str | None = None
    """With a result: the bot that held the lock."""
    reason: str | None = None
    """With a result: that it was accepted."""
    error: str | None = None
    error_code: str | None = None
    answer: str | None = None
    event_type: str | None = None
    event: str | None = None
    """Both for jobs without a result; the row of a job with one is its event, too."""
    # ── what was found ──
    price: Decimal | None = None
    currency: str | None = None
    title: str | None = None
    in_stock: bool | None = None
    data: str | None = None
    last_data: str | None = None
    changed: str | None = None
    """The names of the fields with a new value."""
    first_values: str | None = None
    """Pairs of field and value."""
    new_values: str | None = None
    """Triples of field, old and new value."""
    # ── of an adaptive policy ──
    pool: str | None = None
    early_at: datetime | None = None
    rate_shape: float | None = None
    rate_days: float | None = None
    daily_hours: bytes | None = None
    interval_days: float | None = None
    price_used: float | None = None
    visits: int = 0
    changes_seen: int = 0
    surprise: float | None = None
    gap_days: float | None = None
    siblings: bool = False


def is_usual(row: FinishedRow) -> bool:
    """Whether a job has a result without a new value: its row is all that is written."""
    return row.result_id is not None and row.changed is None and not row.siblings


class StoredPage(msgspec.Struct, frozen=True):
    """The page of a result: in the database, or where large pages are."""

    result_id: UUID
    body: str | None
    blob: str | None


def json_text(value: Any) -> str | None:
    """JSON within the JSON of a row."""
    return None if value is None else _encode(value).decode()


def failed_row(
    row: Row,
    decision: Decision,
    by: str,
    reason: str,
    *,
    error: str | None,
    event: events.JobFailed,
    error_code: str | None = None,
    digest: bytes | None = None,
    answer: bytes | None = None,
) -> FinishedRow:
    """A job that ends without a result: failed, or expired."""
    assert decision.next_run_at is not None
    return FinishedRow(
        row_at=row["row_at"],
        version=row["version"],
        job_id=row["job_id"],
        state=decision.state,
        looked_up=not row["known"],
        next_run=decision.next_run_at.timestamp(),
        failure_count=decision.failure_count,
        error_rate=decision.error_rate,
        subject=row["url"],
        by=by,
        reason=reason,
        error=error,
        error_code=error_code,
        digest=digest,
        answer=None if answer is None else answer.decode(),
        event_type=events.JOB_FAILED,
        event=json_text(event),
        pool=row["pool"],
    )
