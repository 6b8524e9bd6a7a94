"""Batches of crawled posts on the bus: `data.collected` in, `analyze_result` out."""

from typing import Any

import msgspec

RESULT_EXCHANGE = "collector.results"
RESULT_ROUTING_KEY = "analytics.result"
ANALYZE_RESULT = "analyze_result"
ALERT_RAISED = "analytics.alert.raised"


class CollectedPayload(msgspec.Struct, kw_only=True):
    """Where a batch lies and what it belongs to; only the path is indispensable."""

    minio_path: str
    project_id: str | None = None
    job_id: str | None = None
    batch_index: int | None = None
    content_count: int | None = None
    platform: str | None = None
    task_type: str | None = None
    keyword: str | None = None
    brand_name: str | None = None


class DataCollected(msgspec.Struct, kw_only=True):
    """`data.collected`: a crawler has put a batch into object storage."""

    payload: CollectedPayload
    event_id: str | None = None
    event_type: str | None = None
    timestamp: str | None = None


class DataRef(msgspec.Struct, kw_only=True):
    bucket: str
    path: str


class LegacyMessage(msgspec.Struct, kw_only=True):
    """The older form: a bare reference."""

    data_ref: DataRef
    project_id: str | None = None
    job_id: str | None = None
    platform: str | None = None


class AnalyzeResult(msgspec.Struct, kw_only=True):
    """`analyze_result`: how the analysis of one batch ended."""

    project_id: str
    job_id: str
    batch_size: int
    success_count: int
    error_count: int
    platform: str
    task_type: str = ANALYZE_RESULT


class AlertRaised(msgspec.Struct, kw_only=True):
    """`analytics.alert.raised`: a post that somebody should look at now."""

    project_id: str
    post_id: str
    platform: str
    risk_level: str
    impact_score: float
    intent: str
    sentiment: str
    permalink: str | None
    reasons: list[dict[str, Any]]
