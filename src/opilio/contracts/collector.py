"""Messages of the collector: requests and projects in, tasks out, results back.

Readers are tolerant (a field they do not know is skipped), because crawlers are written by others and grow by
adding; what Opilio writes is exactly what stands here.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

TaskType = Literal["research_keyword", "crawl_links", "research_and_crawl", "dryrun_keyword"]
ANALYZE_RESULT = "analyze_result"
DATA_COLLECTED = "data.collected"
ANALYTICS_RESULT = "analytics.result"  # the routing key of an analyze_result

# No platform lists more than this for one task; what claims to is not believed.
Count = Annotated[int, Meta(ge=0, le=1_000_000_000)]
AttemptNumber = Annotated[int, Meta(ge=1, le=1_000)]
JobId = Annotated[str, Meta(min_length=1, max_length=255)]
Days = Annotated[int, Meta(ge=1, le=36_500)]


class CrawlRequest(msgspec.Struct, kw_only=True):
    """`collector.inbound`: one job for every platform."""

    job_id: JobId
    task_type: TaskType
    payload: dict[str, Any] = {}
    time_range: Days | None = None
    attempt: AttemptNumber = 1
    max_attempts: AttemptNumber | None = None
    emitted_at: datetime | None = None


class CrawlTask(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`crawler.<platform>.queue`: one keyword on one platform."""

    job_id: str
    platform: str
    task_type: str
    keywords: list[str]
    limit: int
    time_range: int | None = None
    payload: dict[str, Any]
    attempt: int
    max_attempts: int
    emitted_at: datetime
    brand_name: str | None = None


class LimitInfo(msgspec.Struct, kw_only=True):
    """What was asked for, what was tried, what the platform has."""

    requested_limit: Count
    applied_limit: Count
    total_found: Count
    platform_limited: bool


class Stats(msgspec.Struct, kw_only=True):
    """How many items of a task succeeded, failed, were skipped."""

    successful: Count
    failed: Count
    skipped: Count
    completion_rate: float


class ResultError(msgspec.Struct, kw_only=True):
    code: str
    message: str = ""


class CrawlerResult(msgspec.Struct, kw_only=True):
    """`crawler.<platform>.result`, version 2; without `limit_info` or `stats` it is the old format."""

    success: bool
    task_type: str
    limit_info: LimitInfo | None = None
    stats: Stats | None = None
    error: ResultError | None = None
    payload: list[Any] = []
    job_id: str | msgspec.UnsetType = msgspec.UNSET
    platform: str | msgspec.UnsetType = msgspec.UNSET
    attempt: AttemptNumber | msgspec.UnsetType = msgspec.UNSET
    cursor: str | msgspec.UnsetType = msgspec.UNSET
    crawl_id: str | msgspec.UnsetType = (
        msgspec.UNSET
    )  # one run of the crawler: its result and its batches carry it
    emitted_at: datetime | msgspec.UnsetType = msgspec.UNSET


class FlatResult(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`crawler.<platform>.result`, flat: a status instead of items."""

    job_id: str
    task_type: str
    status: str
    platform: str | None = None
    cursor: str | None = None
    bookmark: str | None = None
    metrics: dict[str, Any] = {}
    error_code: str | None = None
    error_message: str | None = None
    attempt: AttemptNumber | None = None
    emitted_at: datetime | None = None


class AnalyzeResult(msgspec.Struct, kw_only=True):
    """`analytics.result`: what became of one batch."""

    project_id: Annotated[str, Meta(min_length=1, max_length=255)]
    job_id: Annotated[str, Meta(min_length=1, max_length=512)]
    task_type: Literal["analyze_result"] = "analyze_result"
    batch_size: Count
    success_count: Count
    error_count: Count
    platform: str | msgspec.UnsetType = msgspec.UNSET  # both platforms have a batch 1 of the same job
    fetch_error_count: Count | msgspec.UnsetType = (
        msgspec.UNSET
    )  # items with fetch_status error, in none of the above
    crawl_id: str | msgspec.UnsetType = msgspec.UNSET
    size_known: bool | msgspec.UnsetType = msgspec.UNSET  # false: an unreadable batch without a content_count


class CollectedBatch(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The payload of `data.collected`: where a batch lies, and what it is about."""

    minio_path: str
    job_id: str
    platform: str
    task_type: str
    batch_index: int
    content_count: int
    fetch_error_count: int = 0
    crawl_id: str | None = None
    project_id: str | None = None
    keyword: str | None = None
    brand_name: str | None = None


class DataCollected(msgspec.Struct, kw_only=True):
    """`data.collected` on `smap.events`: a batch of items lies in object storage."""

    event_id: str
    event_type: str
    timestamp: datetime
    payload: CollectedBatch


class DataRef(msgspec.Struct, kw_only=True):
    bucket: str
    path: str


class LegacyMessage(msgspec.Struct, kw_only=True):
    """The older form of `data.collected`: a bare reference."""

    data_ref: DataRef
    project_id: str | None = None
    job_id: str | None = None
    platform: str | None = None
