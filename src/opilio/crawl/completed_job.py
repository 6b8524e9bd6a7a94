"""The row of a job that is done: with a result, or because its page was not modified."""

from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from opilio.adapters.postgres import Row
from opilio.contracts import events
from opilio.crawl.adaptive.reschedule import FIXED, Rescheduled
from opilio.crawl.finished_job import FinishedRow, UnchangedRow, json_text
from opilio.crawl.history import Change, Values, remembered
from opilio.crawl.submission import Submission


class Success(msgspec.Struct, frozen=True):
    """A successful crawl, and what follows from it."""

    row: Row
    sent: Submission
    next_run_at: datetime
    error_rate: float
    """Of the policy from now on."""
    changes: list[Change]
    plan: Rescheduled = FIXED
    as_before: bool = False
    """Whether all but `data` was found as it was."""

    @property
    def before(self) -> Values:
        return last_values(self.row)

    @property
    def is_unchanged(self) -> bool:
        return self.as_before and self.plan is FIXED and self.sent.outcome.data is None


def last_values(row: Row) -> Values:
    """What the last crawl found."""
    return Values(
        row["last_price"], row["last_currency"], row["last_title"], row["last_in_stock"], row["last_data"]
    )


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


def result_row(success: Success, result_id: UUID) -> UnchangedRow:
    """A job with a result, which is also that result and its event."""
    if success.is_unchanged:
        return UnchangedRow(*_always_said(success, result_id))
    return _full_row(success, result_id)


def _always_said(success: Success, result_id: UUID | None) -> tuple[Any, ...]:
    """The fields of an UnchangedRow, in their order: names would be looked up one by one, for every job."""
    row, sent = success.row, success.sent
    outcome, validators = sent.outcome, sent.validators
    return (
        row["row_at"],
        row["version"],
        row["job_id"],
        success.next_run_at.timestamp(),
        row["url"],
        success.error_rate or None,
        sent.claim.digest,
        not row["known"],
        result_id,
        outcome.html_hash,
        outcome.crawl_duration,
        validators.etag,
        validators.last_modified,
        success.as_before,
    )


def _full_row(success: Success, result_id: UUID | None) -> FinishedRow:
    finished = FinishedRow(*_always_said(success, result_id))
    _set_found(finished, success)
    if success.changes:
        _set_changes(finished, success.changes)
    if success.plan is not FIXED:
        _set_plan(finished, success.row["pool"], success.plan)
    return finished


def _set_found(finished: FinishedRow, success: Success) -> None:
    values, data = success.sent.values, success.sent.outcome.data
    if not success.as_before:
        finished.price = values.price
        finished.currency = values.currency
        finished.title = values.title
        finished.in_stock = values.in_stock
    if data is not None:
        finished.data = json_text(data)
        finished.last_data = json_text(remembered(success.before, values))


def _set_changes(finished: FinishedRow, changes: list[Change]) -> None:
    finished.changed = json_text([change.field for change in changes])
    finished.first_values = json_text([(c.field, c.new) for c in changes if c.old is None] or None)
    finished.new_values = json_text([(c.field, c.old, c.new) for c in changes if c.old is not None] or None)


def _set_plan(finished: FinishedRow, pool: str, plan: Rescheduled) -> None:
    finished.pool = pool
    finished.early_at = plan.early_at
    finished.interval_days = plan.interval_days
    finished.price_used = plan.price_used
    finished.gap_days = plan.gap_days
    finished.rate_shape = plan.rate_shape
    finished.rate_days = plan.rate_days
    finished.daily_hours = plan.daily_hours
    finished.surprise = plan.surprise
    finished.visits = plan.visits
    finished.changes_seen = plan.changes_seen
    finished.siblings = plan.siblings


def unmodified_row(success: Success) -> FinishedRow:
    """A job whose page is as its last result says: no result, and an event of its own."""
    finished = _full_row(success, None)
    finished.duration = None
    finished.changed = None
    finished.by = f"bot:{success.sent.claim.bot_id}"
    finished.reason = "not modified"
    finished.answer = _kept_answer(success.row, success.before)
    finished.event_type = events.JOB_COMPLETED
    finished.event = json_text(_completion(success))
    return finished


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
        html_hash=sent.outcome.html_hash,
        crawl_duration=sent.outcome.crawl_duration,
        changed=[change.field for change in success.changes],
        not_modified=True,
    )
