"""Reads a message of `collector.results`: detects its format by its fields and finds the task it belongs to."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from opilio.collector.result import Analysis, Result, digest, shortened
from opilio.contracts import consistency as checks
from opilio.contracts.collector import (
    ANALYTICS_RESULT,
    ANALYZE_RESULT,
    AttemptNumber,
    Count,
    LimitInfo,
    ResultError,
    Stats,
)

_RESULT_KEY = re.compile(r"crawler\.([^.]+)\.result")
_SUCCEEDED = frozenset({"success", "succeeded", "completed", "done", "ok", "partial"})
_FAILED = frozenset({"failed", "failure", "error"})
_STARTED = frozenset({"started", "running"})
_MOST_MESSAGE = 2_000


class Unreadable(Exception):
    """A message that cannot be processed; the text is the reason stored with its dead letter."""


class ItemMeta(msgspec.Struct):
    job_id: str | None = None
    platform: str | None = None
    task_type: str | None = None


class Item(msgspec.Struct):
    """The part of an item that the collector reads."""

    meta: ItemMeta | None = None


class _AnyFormat(msgspec.Struct, kw_only=True):
    """The fields of all formats, so that a body is decoded once."""

    task_type: str | UnsetType | None = UNSET
    job_id: str | UnsetType | None = UNSET
    platform: str | UnsetType | None = UNSET
    attempt: AttemptNumber | None = None
    cursor: str | int | None = None
    crawl_id: str | None = None
    # version 2 and the old format
    success: bool | UnsetType = UNSET
    limit_info: LimitInfo | None = None
    stats: Stats | None = None
    error: ResultError | str | None = None
    payload: list[Item] | None = None
    # flat
    status: str | UnsetType = UNSET
    bookmark: str | int | None = None
    metrics: dict[str, Any] | None = None
    error_code: str | None = None
    error_message: str | None = None
    emitted_at: Any = None
    # analyze_result
    project_id: str | UnsetType | None = UNSET
    batch_size: Count | UnsetType = UNSET
    success_count: Count | UnsetType = UNSET
    error_count: Count | UnsetType = UNSET
    fetch_error_count: Count = 0
    size_known: bool = True


_decode = msgspec.json.Decoder(_AnyFormat).decode


@dataclass(frozen=True, slots=True)
class Envelope:
    """The routing key, correlation id and headers of a message."""

    routing_key: str = ""
    correlation_id: str | None = None
    headers: Mapping[str, Any] | None = None
    message_id: str = ""

    def header(self, name: str) -> str | None:
        value = (self.headers or {}).get(name)
        return None if value is None else str(value)


Read: TypeAlias = Result | Analysis


def read(body: bytes, envelope: Envelope) -> Read:
    """A result or an analysis; raises `Unreadable` with the reason."""
    try:
        message = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(f"cannot be decoded: {error}") from None
    if _is_analysis(message, envelope):
        return _analysis(message, envelope, body)
    if message.success is not UNSET:
        return _crawl_result(message, envelope, body)
    if message.status is not UNSET:
        return _flat_result(message, envelope, body)
    raise Unreadable("unknown format: it has neither success, status nor success_count")


# ── analyses ─────────────────────────────────────────────────────────────────────────────────────


def _is_analysis(message: _AnyFormat, envelope: Envelope) -> bool:
    named = message.task_type == ANALYZE_RESULT or envelope.routing_key == ANALYTICS_RESULT
    return named or (message.success_count is not UNSET and message.success is UNSET)


def _analysis(message: _AnyFormat, envelope: Envelope, body: bytes) -> Analysis:
    if message.task_type != ANALYZE_RESULT:
        raise Unreadable(f"task_type must be {ANALYZE_RESULT!r}, not {_shown(message.task_type)}")
    if not message.project_id or not message.job_id:
        raise Unreadable("project_id and job_id are required")
    if message.success_count is UNSET or message.error_count is UNSET or message.batch_size is UNSET:
        raise Unreadable("batch_size, success_count and error_count are required")
    return Analysis(
        project_id=_storable(message.project_id, "project_id"),
        job_id=_storable(message.job_id, "job_id"),
        success_count=message.success_count,
        error_count=message.error_count,
        platform=_storable((message.platform or envelope.header("x-platform") or "").lower(), "platform"),
        crawl_id=_crawl_id(message) or "",
        fetch_error_count=message.fetch_error_count,
        size_known=message.size_known,
        digest=digest(body),
        message_id=envelope.message_id,
        violations=checks.of_analysis(message.batch_size, message.success_count, message.error_count),
    )


# ── results of crawlers ──────────────────────────────────────────────────────────────────────────


def _crawl_result(message: _AnyFormat, envelope: Envelope, body: bytes) -> Result:
    assert message.success is not UNSET
    items = message.payload or []
    platform, job_id = _attributed(message, envelope, items)
    old = message.limit_info is None or message.stats is None
    limit, stats = fallback(message.success, len(items)) if old else (message.limit_info, message.stats)
    assert limit is not None
    assert stats is not None
    attempt = _attempt(message, envelope)
    error = message.error
    code, text = (
        (error.code, error.message) if isinstance(error, ResultError) else (message.error_code, error)
    )
    return Result(
        platform=platform,
        job_id=job_id,
        format="old" if old else "v2",
        success=message.success,
        successful=stats.successful,
        failed=stats.failed,
        skipped=stats.skipped,
        total_found=limit.total_found,
        requested_limit=None if old else limit.requested_limit,
        platform_limited=limit.platform_limited,
        attempt=attempt,
        cursor=_cursor(message),
        digest=digest(body),
        crawl_id=_crawl_id(message),
        emitted_at=_time(message.emitted_at),
        code=None if message.success else _short(code),
        message=None if message.success else _short(text),
        violations=() if old else checks.of_result(message.success, limit, stats, _metas(items)),
    )


def fallback(success: bool, payload_length: int) -> tuple[LimitInfo, Stats]:
    """Estimates what the old format lacks from its number of items."""
    stats = Stats(
        successful=payload_length if success else 0,
        failed=0 if success else payload_length,
        skipped=0,
        completion_rate=1.0 if success and payload_length else 0.0,
    )
    limit = LimitInfo(requested_limit=0, applied_limit=0, total_found=payload_length, platform_limited=False)
    return limit, stats


def _flat_result(message: _AnyFormat, envelope: Envelope, body: bytes) -> Result:
    assert message.status is not UNSET
    status = message.status.lower()
    if status not in _SUCCEEDED | _FAILED | _STARTED:
        raise Unreadable(f"status {_shown(message.status)} is not a known status")
    platform, job_id = _attributed(message, envelope, [])
    metrics = message.metrics or {}
    found = metrics.get("total_found")
    text = message.error if isinstance(message.error, str) else message.error_message
    return Result(
        platform=platform,
        job_id=job_id,
        format="flat",
        success=status in _SUCCEEDED,
        successful=_metric(metrics, "successful"),
        failed=_metric(metrics, "failed"),
        skipped=_metric(metrics, "skipped"),
        total_found=None if found is None else _metric(metrics, "total_found"),
        requested_limit=None,
        platform_limited=metrics.get("platform_limited") is True,
        attempt=_attempt(message, envelope),
        cursor=_cursor(message),
        digest=digest(body),
        crawl_id=_crawl_id(message),
        started=status in _STARTED,
        emitted_at=_time(message.emitted_at),
        code=None if status in _SUCCEEDED else _short(message.error_code),
        message=None if status in _SUCCEEDED else _short(text),
    )


def _metric(metrics: Mapping[str, Any], name: str) -> int:
    value = metrics.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 1_000_000_000:
        raise Unreadable(f"metrics.{name} must be a count, not {_shown(value)}")
    return value


def _metas(items: list[Item]) -> list[tuple[str | None, str | None, str | None]]:
    return [
        (None, None, None)
        if item.meta is None
        else (item.meta.job_id, item.meta.platform, item.meta.task_type)
        for item in items
    ]


# ── attribution ──────────────────────────────────────────────────────────────────────────────────


def _attributed(message: _AnyFormat, envelope: Envelope, items: list[Item]) -> tuple[str, str]:
    """Platform and job from the first of body, headers, routing key, first item; a failed search has no item."""
    first = items[0].meta if items and items[0].meta else ItemMeta()
    key = _RESULT_KEY.fullmatch(envelope.routing_key)
    platform = (
        message.platform or envelope.header("x-platform") or (key and key.group(1)) or first.platform or ""
    )
    job_id = message.job_id or envelope.header("x-job-id") or envelope.correlation_id or first.job_id or ""
    if not job_id:
        raise Unreadable("cannot be attributed: no job_id in body, headers, correlation_id or first item")
    if not platform:
        raise Unreadable("cannot be attributed: no platform in body, headers, routing key or first item")
    return _storable(platform.lower(), "platform"), _storable(job_id, "job_id")


def _attempt(message: _AnyFormat, envelope: Envelope) -> int | None:
    if message.attempt is not None:
        return message.attempt
    header = envelope.header("x-attempt")
    return int(header) if header and re.fullmatch(r"[1-9][0-9]{0,2}", header) else None


def _cursor(message: _AnyFormat) -> str:
    cursor = message.cursor if message.cursor is not None else message.bookmark
    return "" if cursor is None else shortened(_storable(str(cursor), "cursor"))


def _crawl_id(message: _AnyFormat) -> str | None:
    return shortened(_storable(message.crawl_id, "crawl_id")) if message.crawl_id else None


def _time(value: object) -> datetime | None:
    """A time with its zone; anything else is ignored, because it is only measured."""
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return time if time is not None and time.tzinfo is not None else None


def _storable(text: str, field: str) -> str:
    """Text that the database can store."""
    if len(text) > 4_096 or "\0" in text or not text.isprintable():
        raise Unreadable(f"{field} is too long or has unprintable characters")
    return text


def _short(text: str | None) -> str | None:
    return None if text is None else text.replace("\0", "�")[:_MOST_MESSAGE]


def _shown(value: object) -> str:
    return "nothing" if value is UNSET else repr(value)[:100]
