"""The bodies of the management API about jobs, results, hosts, bots and statistics."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

JobStatus = Literal["pending", "locked", "done", "failed", "expired"]


class Job(msgspec.Struct, kw_only=True):
    id: UUID
    policy_id: UUID
    url: str
    host: str
    queue: str
    status: JobStatus
    priority: int
    retry_count: int
    max_retries: int
    run_at: datetime | None
    created_at: datetime
    locked_by: str | None
    locked_at: datetime | None
    locked_until: datetime | None
    lock_ttl_seconds: float | None
    last_error: str | None
    last_error_code: str | None
    finished_at: datetime | None
    result_id: UUID | None


class TimelineRow(msgspec.Struct, kw_only=True):
    """One transition: from, to, when, by whom, why."""

    from_: str | None = msgspec.field(name="from")
    to: str
    at: datetime
    by: str
    reason: str


class LateRow(msgspec.Struct, kw_only=True):
    """A result that was refused as late and kept aside."""

    id: UUID
    job_id: UUID
    bot_id: str
    lock_token: UUID | None
    reason: str
    submission: Any
    received_at: datetime


class Reason(msgspec.Struct, kw_only=True, omit_defaults=True):
    code: str
    message: str
    until: datetime | None = None


class Why(msgspec.Struct, kw_only=True):
    """Why something is not being crawled now; no reasons and `running` false means: any moment."""

    running: bool
    reasons: list[Reason]


class ActionRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    action: Literal["reset", "expire", "release"]
    ids: Annotated[list[UUID], Meta(min_length=1, max_length=1000)]


class ActionRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    id: UUID
    success: bool
    status: str | None = None
    error: Any = None


class Result(msgspec.Struct, kw_only=True):
    id: UUID
    job_id: UUID
    policy_id: UUID
    url: str
    bot_id: str
    price: Decimal | None
    currency: str | None
    title: str | None
    in_stock: bool | None
    parsed_data: Any
    html_hash: str | None
    crawl_duration: float | None
    crawled_at: datetime


class FullResult(Result, kw_only=True):
    raw_html: str | None


class HistoryRow(msgspec.Struct, kw_only=True):
    """One change of one value."""

    field: str
    old: Any
    new: Any
    at: datetime
    job_id: UUID


class LimitsRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Replaces the limits of a host; omitted ones use the default."""

    max_concurrent: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    min_delay_seconds: Annotated[float, Meta(ge=0, le=86_400)] | None = None


class Host(msgspec.Struct, kw_only=True):
    host: str
    max_concurrent: int | None
    min_delay_seconds: float | None
    effective_max_concurrent: int | None
    effective_min_delay_seconds: float | None
    next_at: datetime | None
    cooling_until: datetime | None
    cooling_reason: str | None
    locked: int
    waiting: int
    policies: int


class CoolingPeriod(msgspec.Struct, kw_only=True):
    """A time in which nobody visited a host because it had answered 429 or 503."""

    began_at: datetime
    until: datetime
    reason: str


class FullHost(Host, kw_only=True):
    cooling_periods: list[CoolingPeriod]
    """Of the last seven days, newest first, at most 100."""


class BotInfo(msgspec.Struct, kw_only=True):
    bot_id: str
    capabilities: list[str]
    last_seen_at: datetime | None
    locked: int
    tokens: int
    pulls_24h: int
    pulled_24h: int
    done_24h: int
    failed_24h: int
    late_24h: int
    mean_duration_seconds: float | None


class TokenRow(msgspec.Struct, kw_only=True):
    id: UUID
    created_at: datetime
    revoked_at: datetime | None


class NewToken(msgspec.Struct, kw_only=True):
    id: UUID
    token: str


class Stats(msgspec.Struct, kw_only=True):
    """Counts by state, what happened in the last hour, and how late the oldest due work is."""

    jobs: dict[str, int]
    policies: dict[str, int]
    last_hour: dict[str, int]
    success_rate: float | None
    retry_rate: float | None
    mean_duration_seconds: float | None
    due: int
    oldest_due_seconds: float
    oldest_pending_seconds: float
    hosts_cooling: int
    bots_alive: int
    outbox: int
    outbox_age_seconds: float
    webhooks_waiting: int
    dead_letters: int
    exact: bool
    at: datetime
