"""Keyword projects: their definition, state and progress."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from opilio.contracts.collector import Days

ProjectStatus = Literal["PENDING", "PROCESSING", "DONE"]
# `$(?!\n)` is the very end: Python's `$` allows a line break after it, and JSON Schema knows no `\Z`.
ProjectId = Annotated[
    str, Meta(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:-]*$(?!\n)")
]
Platform = Annotated[str, Meta(min_length=1, max_length=32, pattern=r"^[a-z0-9_]+$(?!\n)")]
Keyword = Annotated[str, Meta(min_length=1, max_length=500)]
Keywords = Annotated[list[Keyword], Meta(max_length=1_000)]
LimitPerKeyword = Annotated[int, Meta(ge=1, le=100_000)]
TimeZone = Annotated[
    str, Meta(min_length=1, max_length=64, description="IANA name, such as Asia/Ho_Chi_Minh")
]
WebhookUrl = Annotated[str, Meta(min_length=1, max_length=2048)]


class ProjectInput(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A new project. Competitors come as a list, or as lists by name; keywords are numbered through."""

    project_id: ProjectId | None = None
    brand_name: Annotated[str, Meta(max_length=500)] | None = None
    brand_keywords: Keywords = []
    competitor_keywords: Keywords | dict[str, Keywords] = []
    platforms: list[Platform] | None = None
    limit_per_keyword: LimitPerKeyword | None = None
    time_range: Days | None = None
    webhook_url: WebhookUrl | None = None
    time_zone: TimeZone | None = None


class ProjectBody(ProjectInput, kw_only=True, forbid_unknown_fields=False):
    """The payload of `project.created`; fields that other readers need are skipped."""

    project_id: ProjectId


class ProjectCreated(msgspec.Struct, kw_only=True):
    """`project.created` on `smap.events`."""

    event_id: str | None = None
    event_type: Literal["project.created"] = "project.created"
    timestamp: datetime | None = None
    payload: ProjectBody


class ProjectState(msgspec.Struct, kw_only=True):
    """The state of a project: the flat hash, with the three legacy fields."""

    status: ProjectStatus = "PENDING"
    tasks_total: int = 0
    tasks_done: int = 0
    tasks_errors: int = 0
    items_expected: int = 0
    items_actual: int = 0
    items_errors: int = 0
    analyze_total: int = 0
    analyze_done: int = 0
    analyze_errors: int = 0
    crawl_total: int = 0
    crawl_done: int = 0
    crawl_errors: int = 0


class TaskProgress(msgspec.Struct, kw_only=True):
    total: int
    done: int
    errors: int
    percent: float


class ItemProgress(msgspec.Struct, kw_only=True):
    expected: int
    actual: int
    errors: int
    percent: float


class CrawlProgress(msgspec.Struct, kw_only=True):
    tasks: TaskProgress
    items: ItemProgress


class AnalyzeProgress(msgspec.Struct, kw_only=True):
    total: int
    done: int
    errors: int
    percent: float


class Progress(msgspec.Struct, kw_only=True):
    """The body of a progress webhook: `updated_at` while PROCESSING, `completed_at` once, when DONE."""

    project_id: str
    status: ProjectStatus
    overall_progress_percent: float
    crawl: CrawlProgress
    analyze: AnalyzeProgress
    updated_at: datetime | msgspec.UnsetType = msgspec.UNSET
    completed_at: datetime | msgspec.UnsetType = msgspec.UNSET


class MissingAnalysis(msgspec.Struct, kw_only=True):
    """A job of a project with crawled items that were not analysed yet."""

    job_id: str
    platforms: list[str]
    keyword: str | None
    missing: int


class Difference(msgspec.Struct, kw_only=True):
    """A figure of a project that was wrong in the counters or in the cache, before and after."""

    project_id: str
    where: Literal["counters", "cache"]
    field: str
    was: int | str | None
    now: int | str


class ProjectWarning(msgspec.Struct, kw_only=True):
    """Something about a project that a person should know: a keyword that the platform has little of, say."""

    platform: str
    job_id: str
    kind: str
    message: str
    at: datetime


class Project(msgspec.Struct, kw_only=True):
    """A project in the management API; `progress` lags by about a second."""

    project_id: str
    brand_name: str | None
    brand_keywords: list[str]
    competitor_keywords: list[str] | dict[str, list[str]]
    platforms: list[str]
    limit_per_keyword: int
    time_range: int | None
    webhook_url: str | None
    time_zone: str | None = None
    created_at: datetime
    created_by: str
    finished_at: datetime | None
    status: ProjectStatus
    progress: Progress
    warnings: list[ProjectWarning] | msgspec.UnsetType = msgspec.UNSET
    stalled_at: datetime | msgspec.UnsetType = msgspec.UNSET  # since when the analysis is reported as stalled
    waiting_for: list[MissingAnalysis] | msgspec.UnsetType = (
        msgspec.UNSET
    )  # what the analysis has not brought yet


class ClosedProject(msgspec.Struct, kw_only=True):
    """A project that an operator closed: the items that were not analysed count as errors."""

    project_id: str
    analyze_errors_added: int


class RetryTask(msgspec.Struct, kw_only=True):
    """The posts of one platform that are crawled again."""

    platform: str
    posts: int


class RetriedErrors(msgspec.Struct, kw_only=True):
    """Failed posts of a project that were sent out again; `job_id` is null when there were none."""

    project_id: str
    job_id: str | None
    posts: int
    without_link: int  # failed posts whose crawler gave no permalink: they cannot be crawled by link
    more: bool  # one call sends a thousand posts at most
    tasks: list[RetryTask]


class DryRunInput(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A search without a project, to see what keywords find."""

    keywords: Annotated[list[Keyword], Meta(min_length=1, max_length=20)]
    limit: Annotated[int, Meta(ge=1, le=100)] = 10


class DryRunTask(msgspec.Struct, kw_only=True):
    """A dry run on one platform."""

    platform: str
    status: Literal["waiting", "sent", "retrying", "done", "failed"]
    successful: int
    failed: int
    total_found: int | None
    error_code: str | None
    error_message: str | None


class DryRunItem(msgspec.Struct, kw_only=True):
    """A post that a dry run found."""

    platform: str
    id: str
    content_text: str | None
    author_name: str | None
    permalink: str | None
    published_at: datetime | None
    view_count: int
    like_count: int
    fetch_status: Literal["success", "error"]
    error_code: str | None


class DryRun(msgspec.Struct, kw_only=True):
    """A dry run: `done` when every platform has answered and its items are stored."""

    job_id: str
    keywords: list[str]
    created_at: datetime
    done: bool
    tasks: list[DryRunTask]
    items: list[DryRunItem]


class TaskRow(msgspec.Struct, kw_only=True):
    """One task of a project: one keyword on one platform."""

    job_id: str
    platform: str
    task_type: str
    keyword: str
    status: Literal["waiting", "sent", "retrying", "done", "failed"]
    attempt: int
    max_attempts: int
    limit: int
    successful: int
    failed: int
    skipped: int
    total_found: int | None
    platform_limited: bool
    error_code: str | None
    error_message: str | None
    sent_at: datetime | None
    ready_at: datetime | None
    finished_at: datetime | None
    created_at: datetime
