"""The row of a job that is done: with a result, or because its page was not modified."""

from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from opilio.adapters.postgres import Row
from opilio.contracts import events
from opilio.crawl.adaptive.reschedule import Rescheduled
from opilio.crawl.finished_job import FinishedRow, json_text
from opilio.crawl.history import Change, Values, remembered
from opilio.crawl.retry import Decision
from opilio.crawl.submission import Submission


class Success(msgspec.Struct, frozen=True):
    """A successful crawl, and what follows from it."""

    row: Row
    sent: Submission
    decision: Decision
    before: Values
    changes: list[Change]
    plan: Rescheduled

    @property
    def next_run_at(self) -> datetime:
        assert self.decision.next_run_at is not None
        return self.decision.next_run_at


class LoggedCompletion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What `crawl.job.completed` says of a page that was not modified; the function `event_data` adds the columns of its row."""

    bot_id: str
    result_id: UUID | None
    """The earlier result."""
    price: Decimal | None = None
    currency: str | None = None
    title: str | None = None
    in_stock: bool | None = None
    data: dict[str, Any] | None = None
    html_hash: str | None = None
    crawl_duration: float | None = None
    changed: list[str] = []
    not_modified: bool = False


def result_row(success: Success, result_id: UUID | None) -> FinishedRow:
    """A job with a result, which is also that result and its event."""
    row, sent, decision, changes = success.row, success.sent, success.decision, success.changes
    values, validators, plan = sent.values, sent.validators, success.plan
    return FinishedRow(
        row_at=row["row_at"],
        version=row["version"],
        state=decision.state,
        next_run_at=success.next_run_at,
        error_rate=decision.error_rate,
        subject=row["url"],
        digest=sent.claim.digest,
        result_id=result_id,
        price=values.price,
        currency=values.currency,
        title=values.title,
        in_stock=values.in_stock,
        data=json_text(sent.data) if sent.data is not None else None,
        html_hash=sent.html_hash,
        duration=sent.crawl_duration,
        last_data=json_text(remembered(success.before, values)) if sent.data else None,
        etag=validators.etag,
        last_modified=validators.last_modified,
        changed=json_text([change.field for change in changes]) if changes else None,
        first_values=_first_values(changes) if changes else None,
        new_values=_new_values(changes) if changes else None,
        pool=row["pool"],
        early_at=plan.early_at,
        interval_days=plan.interval_days,
        price_used=plan.price_used,
        gap_days=plan.gap_days,
        rate_shape=plan.rate_shape,
        rate_days=plan.rate_days,
        daily_hours=plan.daily_hours,
        surprise=plan.surprise,
        visits=plan.visits,
        changes_seen=plan.changes_seen,
        siblings=plan.siblings,
    )


def unmodified_row(success: Success) -> FinishedRow:
    """A job whose page is as its last result says: no result, and an event of its own."""
    return msgspec.structs.replace(
        result_row(success, None),
        duration=None,
        changed=None,
        by=f"bot:{success.sent.claim.bot_id}",
        reason="not modified",
        answer=_kept_answer(success.row, success.before),
        event_type=events.JOB_COMPLETED,
        event=json_text(_completion(success)),
    )


def _first_values(changes: list[Change]) -> str | None:
    return json_text([(change.field, change.new) for change in changes if change.old is None] or None)


def _new_values(changes: list[Change]) -> str | None:
    return json_text(
        [(change.field, change.old, change.new) for change in changes if change.old is not None] or None
    )


def _kept_answer(row: Row, values: Values) -> str | None:
    """What the row of a job without a result does not say; the function `archived_answer` adds the rest."""
    return json_text({"price": values.price, "currency": values.currency, "result_id": row["last_result_id"]})


def _completion(success: Success) -> LoggedCompletion:
    row, sent, values = success.row, success.sent, success.before
    return LoggedCompletion(
        bot_id=sent.claim.bot_id,
        result_id=row["last_result_id"],
        price=values.price,
        currency=values.currency,
        title=values.title,
        in_stock=values.in_stock,
        data=dict(values.data) if values.data else None,
        html_hash=sent.html_hash,
        crawl_duration=sent.crawl_duration,
        changed=[change.field for change in success.changes],
        not_modified=True,
    )
