"""Events that Opilio tells the application: CloudEvents 1.0 in JSON."""

from datetime import datetime
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import msgspec

from opilio.contracts.analytics import ImpactReason, RiskLevel, SentimentLabel
from opilio.contracts.projects import MissingAnalysis

JOB_COMPLETED = "crawl.job.completed"
JOB_FAILED = "crawl.job.failed"
ALERT_RAISED = "analytics.alert.raised"
PARSING_ERRORS_EXCEEDED = "analytics.parsing_errors.exceeded"
VALUE_ALERT = "crawl.value.alert"
PROJECT_STALLED = "project.stalled"


class JobCompleted(msgspec.Struct, kw_only=True):
    """`crawl.job.completed`: a crawl succeeded and its result is stored, or the page was not modified."""

    job_id: UUID
    policy_id: UUID
    result_id: UUID | None
    url: str
    price: Decimal | None
    currency: str | None
    title: str | None
    in_stock: bool | None
    data: dict[str, Any] | None
    html_hash: str | None
    crawl_duration: float | None
    crawled_at: datetime
    bot_id: str
    changed: list[str]
    not_modified: bool = False


class JobFailed(msgspec.Struct, kw_only=True):
    """`crawl.job.failed`: a job ended without a result."""

    job_id: UUID
    policy_id: UUID
    url: str
    reason: Literal["failed", "expired"]
    error_code: str | None
    error_msg: str | None
    retry_count: int
    max_retries: int
    failure_count: int
    policy_next_run: datetime
    bot_id: str | None


class ValueAlertFired(msgspec.Struct, kw_only=True):
    """`crawl.value.alert`: a value that an alert watches crossed its limit, changed, or came back."""

    alert_id: UUID
    name: str
    policy_id: UUID
    url: str
    field: str
    old: Any
    new: Any
    at: datetime
    percent: Decimal | msgspec.UnsetType = msgspec.UNSET


class ParsingErrorsExceeded(msgspec.Struct, kw_only=True):
    """`analytics.parsing_errors.exceeded`: many items of a batch could not be parsed; a crawler may be broken."""

    project_id: str | None
    platform: str
    job_id: str | None
    batch_index: int | None
    items: int
    parsing_errors: int
    percent: float


class AlertRaised(msgspec.Struct, kw_only=True):
    """`analytics.alert.raised`: a post that somebody should look at now."""

    project_id: str
    post_id: str
    platform: str
    risk_level: RiskLevel
    impact_score: float
    intent: str
    sentiment: SentimentLabel
    permalink: str | None
    reasons: list[ImpactReason]


class ProjectStalled(msgspec.Struct, kw_only=True):
    """`project.stalled`: all tasks of a project are finished, but its analysis has stood still for too long."""

    project_id: str
    analyze_total: int
    analyze_done: int
    analyze_errors: int
    waiting_since: datetime
    waiting_for: list[MissingAnalysis]


class CloudEvent(msgspec.Struct, kw_only=True):
    """The envelope of an event on the bus and in webhooks."""

    id: str
    source: str
    type: str
    subject: str
    time: datetime
    data: Any
    specversion: Literal["1.0"] = "1.0"
    datacontenttype: Literal["application/json"] = "application/json"
    dataschema: str | msgspec.UnsetType = msgspec.UNSET
    traceparent: str | msgspec.UnsetType = msgspec.UNSET
