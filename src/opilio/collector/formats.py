"""Reads a message of `collector.results`: tells the formats apart by their shape, finds whose result it is."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from opilio.collector.result import Analysis, Result, digest
from opilio.contracts import consistency as checks
from opilio.contracts.collector import (
    ANALYTICS_RESULT,
    ANALYZE_RESULT,
    Attempt,
    Count,
    LimitInfo,
    ResultError,
    Stats,
)

_RESULT_KEY = re.compile(r"crawler\.([^.]+)\.result")
_SUCCEEDED = frozenset({"success", "succeeded", "completed", "done", "ok", "partial"})
_FAILED = frozenset({"failed", "failure", "error"})
_MOST_MESSAGE = 2_000


class Unreadable(Exception):
    """A message that cannot be processed; its text is the reason that goes with it to the dead letters."""


class ItemMeta(msgspec.Struct):
    job_id: str | None = None
    platform: str | None = None
    task_type: str | None = None


class Item(msgspec.Struct):
    """As much of an item as the collector looks at."""

    meta: ItemMeta | None = None


class _Any(msgspec.Struct, kw_only=True):
    """The fields of every format at once, so that a body is read in one pass."""

    task_type: str | UnsetType | None = UNSET
    job_id: str | UnsetType | None = UNSET
    platform: str | UnsetType | None = UNSET
    attempt: Attempt | None = None
    cursor: str | int | None = None
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
    # analyze_result
    project_id: str | UnsetType | None = UNSET
    batch_size: Count | UnsetType = UNSET
    success_count: Count | UnsetType = UNSET
    error_count: Count | UnsetType = UNSET


_decode = msgspec.json.Decoder(_Any).decode


@dataclass(frozen=True, slots=True)
class Envelope:
    """What the broker says about a message, beside its body."""

    routing_key: str = ""
    correlation_id: str | None = None
    headers: Mapping[str, Any] | None = None

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
        return _analysis(message, envelope)
    if message.success is not UNSET:
        return _crawl_result(message, envelope, body)
    if message.status is not UNSET:
        return _flat_result(message, envelope, body)
    raise Unreadable("has the shape of no known format: neither success, nor status, nor success_count")


# ── analyses ─────────────────────────────────────────────────────────────────────────────────────


def _is_analysis(message: _Any, envelope: Envelope) -> bool:
    told = message.task_type == ANALYZE_RESULT or envelope.routing_key == ANALYTICS_RESULT
    return told or (message.success_count is not UNSET and message.success is UNSET)


def _analysis(message: _Any, envelope: Envelope) -> Analysis:
    if message.task_type != ANALYZE_RESULT:
        raise Unreadable(f"task_type must be {ANALYZE_RESULT!r}, not {_shown(message.task_type)}")
    if not message.project_id or not message.job_id:
        raise Unreadable("project_id and job_id must be there and not empty")
    if message.success_count is UNSET or message.error_count is UNSET or message.batch_size is UNSET:
        raise Unreadable("batch_size, success_count and error_count must be there")
    return Analysis(
        project_id=_storable(message.project_id, "project_id"),
        job_id=_storable(message.job_id, "job_id"),
        success_count=message.success_count,
        error_count=message.error_count,
        platform=_storable((message.platform or envelope.header("x-platform") or "").lower(), "platform"),
        violations=checks.of_analysis(message.batch_size, message.success_count, message.error_count),
    )


# ── results of crawlers ──────────────────────────────────────────────────────────────────────────


def _crawl_result(message: _Any, envelope: Envelope, body: bytes) -> Result:
    assert message.success is not UNSET
    items = message.payload or []
    platform, job_id = _attributed(message, envelope, items)
    old = message.limit_info is None or message.stats is None
    limit, stats = fallback(message.success, len(items)) if old else (message.limit_info, message.stats)
    assert limit is not None
    assert stats is not None
    attempt = _attempt(message, envelope)
    told = message.error
    code, text = (told.code, told.message) if isinstance(told, ResultError) else (message.error_code, told)
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
        digest=digest(body) if attempt is None else "",
        code=None if message.success else _short(code),
        message=None if message.success else _short(text),
        violations=() if old else checks.of_result(message.success, limit, stats, _metas(items)),
    )


def fallback(success: bool, payload_length: int) -> tuple[LimitInfo, Stats]:
    """What the old format leaves out, guessed from the number of items it carries."""
    stats = Stats(
        successful=payload_length if success else 0,
        failed=0 if success else payload_length,
        skipped=0,
        completion_rate=1.0 if success and payload_length else 0.0,
    )
    limit = LimitInfo(requested_limit=0, applied_limit=0, total_found=payload_length, platform_limited=False)
    return limit, stats


def _flat_result(message: _Any, envelope: Envelope, body: bytes) -> Result:
    assert message.status is not UNSET
    status = message.status.lower()
    if status not in _SUCCEEDED | _FAILED:
        raise Unreadable(f"status {_shown(message.status)} is neither a success nor a failure")
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


# ── whose it is ──────────────────────────────────────────────────────────────────────────────────


def _attributed(message: _Any, envelope: Envelope, items: list[Item]) -> tuple[str, str]:
    """Platform and job, from the first place that tells: body, headers, routing key, the first item.

    The seed reads the first item alone, which is missing exactly when a keyword has no result.
    """
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


def _attempt(message: _Any, envelope: Envelope) -> int | None:
    if message.attempt is not None:
        return message.attempt
    told = envelope.header("x-attempt")
    return int(told) if told and re.fullmatch(r"[1-9][0-9]{0,2}", told) else None


def _cursor(message: _Any) -> str:
    cursor = message.cursor if message.cursor is not None else message.bookmark
    return "" if cursor is None else _storable(str(cursor), "cursor")


def _storable(text: str, field: str) -> str:
    """Text that a database can hold."""
    if len(text) > 4_096 or "\0" in text or not text.isprintable():
        raise Unreadable(f"{field} is too long or holds what cannot be printed")
    return text


def _short(text: str | None) -> str | None:
    return None if text is None else text.replace("\0", "�")[:_MOST_MESSAGE]


def _shown(value: object) -> str:
    return "nothing" if value is UNSET else repr(value)[:100]
