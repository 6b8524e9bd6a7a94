"""The bodies of the management API about policies."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from opilio.contracts.bot_api import Queue

Hours = Annotated[float, Meta(gt=0)]
Minutes = Annotated[float, Meta(gt=0)]
Priority = Annotated[int, Meta(ge=0, le=100)]
Retries = Annotated[int, Meta(ge=0, le=100)]
Moment = Annotated[
    datetime, Meta(tz=True, description="ISO 8601 with its offset, such as 2030-01-01T00:00:00Z.")
]
Url = Annotated[str, Meta(min_length=1, max_length=2048)]


Schedule = Annotated[
    Literal["fixed", "adaptive"],
    Meta(description="fixed: every frequency_hours; adaptive: when a crawl is worth it, within a budget."),
]


class PolicyInput(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A new policy, with the defaults filled in."""

    url: Url
    enabled: bool = True
    frequency_hours: Hours = 24
    priority: Priority = 50
    max_retries: Retries = 3
    retry_backoff_minutes: Minutes = 5
    timeout_minutes: Minutes = 10
    queue: Queue | None = None
    crawl_config: dict[str, Any] = {}
    rule_set: dict[str, Any] = {}
    hot: bool = False
    labels: dict[str, str] = {}
    next_run_at: Moment | None = None
    schedule: Schedule = "fixed"
    min_interval_hours: Hours | None = None
    max_interval_hours: Hours | None = None


class PolicyPatch(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Any of the fields of a policy; what is left out stays as it is."""

    url: Url | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    frequency_hours: Hours | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    max_retries: Retries | UnsetType = UNSET
    retry_backoff_minutes: Minutes | UnsetType = UNSET
    timeout_minutes: Minutes | UnsetType = UNSET
    queue: Queue | UnsetType | None = UNSET
    crawl_config: dict[str, Any] | UnsetType = UNSET
    rule_set: dict[str, Any] | UnsetType = UNSET
    hot: bool | UnsetType = UNSET
    labels: dict[str, str] | UnsetType = UNSET
    next_run_at: Moment | UnsetType = UNSET
    schedule: Schedule | UnsetType = UNSET
    min_interval_hours: Hours | UnsetType | None = UNSET
    max_interval_hours: Hours | UnsetType | None = UNSET


class Policy(msgspec.Struct, kw_only=True):
    """A policy as the API shows it."""

    id: UUID
    url: str
    host: str
    enabled: bool
    frequency_hours: float
    priority: int
    max_retries: int
    retry_backoff_minutes: float
    timeout_minutes: float
    queue: str
    crawl_config: dict[str, Any]
    rule_set: Any
    hot: bool
    labels: dict[str, str]
    schedule: str
    min_interval_hours: float | None
    max_interval_hours: float | None
    next_run_at: datetime
    last_success_at: datetime | None
    last_failed_at: datetime | None
    failure_count: int
    error_rate: float
    created_at: datetime
    updated_at: datetime


class ImportRow(msgspec.Struct, kw_only=True, omit_defaults=True, dict=True):
    """What became of one row of an import; rows are counted from 1."""

    row: int
    url: str | None
    status: str
    error: str | None = None

    def refused_with(self, refusal: Exception) -> "ImportRow":
        """Keeps the refusal behind `error`, which can be translated; it is not part of the answer of the API."""
        self.__dict__["refusal"] = refusal
        return self

    @property
    def refusal(self) -> Any:
        return self.__dict__.get("refusal")


class ImportAnswer(msgspec.Struct, kw_only=True):
    created: int
    updated: int
    rejected: int
    rows: list[ImportRow]
