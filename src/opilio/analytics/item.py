"""Parses one crawled item into the input of the stages."""

import hashlib
from datetime import UTC, datetime
from typing import Any

import msgspec

from opilio.analytics.message import BatchContext, is_storable
from opilio.analytics.stages.document import Figures
from opilio.analytics.stages.preprocessing import MAX_TEXT
from opilio.contracts.codes import ErrorCode
from opilio.contracts.items import CollectedItem, ItemComment, ItemMeta
from opilio.project_id import extract_project_id

MAX_COMMENTS = 1000
_INDEXED = ("id", "platform", "job_id", "task_type", "error_code")


_ITEM = msgspec.json.Decoder(CollectedItem, strict=False)
_COMMENT = msgspec.json.Decoder(ItemComment, strict=False)


class Failure(msgspec.Struct, frozen=True):
    """An item that could not be fetched or read."""

    content_id: str
    code: str
    message: str
    details: Any = None
    fetched: bool = True  # False: the crawler reports it as failed, so it was never to be analysed


class _Status(msgspec.Struct):
    """What is read of an item that cannot be read as a whole."""

    fetch_status: Any = None


class _Reported(msgspec.Struct):
    meta: _Status


_REPORTED = msgspec.json.Decoder(_Reported)


def parse_item(
    raw: bytes, context: BatchContext, position: int
) -> tuple[CollectedItem | None, Failure | None]:
    """The item, the failure it reports, or both."""
    try:
        item = _ITEM.decode(raw)
        _check_indexed(item.meta)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        placeholder = f"{context.job_id or 'item'}:{context.batch_index or 0}:{position}"
        fetched = not _is_reported_as_failed(raw)
        return None, Failure(
            placeholder, ErrorCode.PARSE_ERROR, str(error), {"position": position}, fetched=fetched
        )
    if not _is_error(item.meta.fetch_status):
        return item, None
    return item, _reported_failure(item.meta)


def _is_error(fetch_status: Any) -> bool:
    return str(fetch_status or "success").lower() == "error"


def _is_reported_as_failed(raw: bytes) -> bool:
    """Whether a malformed item is one that the crawler counts as failed: it is not waited for."""
    try:
        return _is_error(_REPORTED.decode(raw).meta.fetch_status)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False


def _reported_failure(meta: ItemMeta) -> Failure:
    """`fetch_error` is a text, a code, or an object with both, as crawlers have it."""
    told = meta.fetch_error if isinstance(meta.fetch_error, dict) else {"message": meta.fetch_error}
    text = str(told.get("message") or "")
    named = meta.error_code or told.get("code") or (text if text in ErrorCode.__members__ else None)
    code = str(named or ErrorCode.UNKNOWN_ERROR)
    if not is_storable(code):
        code = ErrorCode.UNKNOWN_ERROR
    details = meta.error_details if meta.error_details is not None else told.get("details")
    return Failure(str(meta.id), code, meta.error_message or text, details, fetched=False)


def _check_indexed(meta: ItemMeta) -> None:
    """Checks that indexed fields can be stored."""
    meta.id = str(meta.id).strip()
    if not meta.id:
        raise ValueError("meta.id is empty")
    for name in _INDEXED:
        value = getattr(meta, name)
        if value is not None and not is_storable(value):
            raise ValueError(f"meta.{name} is too long or contains U+0000")


def comments_of(item: CollectedItem) -> list[ItemComment]:
    """The readable comments with text."""
    comments: list[ItemComment] = []
    for raw in item.comments[:MAX_COMMENTS]:
        try:
            comment = _COMMENT.decode(raw)
        except msgspec.DecodeError:
            continue
        if comment.text and comment.text.strip():
            comments.append(comment)
    return comments


def text_of(item: CollectedItem) -> str:
    """The caption, then the transcript."""
    parts = (item.content.text, item.content.transcription)
    return "\n".join(part for part in parts if part)


def project_of(item: CollectedItem, context: BatchContext) -> str | None:
    if context.project_id or not item.meta.job_id:
        return context.project_id
    return extract_project_id(item.meta.job_id)


def figures_of(item: CollectedItem, platform: str, now: datetime) -> Figures:
    published = parse_time(item.meta.published_at)
    seen = parse_time(item.meta.crawled_at) or now
    counts, author = item.interaction, item.author
    return Figures(
        platform=platform,
        views=count(counts.views),
        likes=count(counts.likes),
        comments=count(counts.comments_count),
        shares=count(counts.shares),
        saves=count(counts.saves),
        followers=count(author.followers),
        verified=bool(author.is_verified),
        age_hours=max((seen - published).total_seconds() / 3600, 0.0) if published else None,
    )


def parse_time(value: Any) -> datetime | None:
    """Parses ISO 8601, or seconds or milliseconds since 1970; else None."""
    try:
        if isinstance(value, str) and value:
            found = datetime.fromisoformat(value.strip())
            # Normalised, because PostgreSQL accepts fewer offsets than Python.
            return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000 if value > 1e11 else value, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def count(value: int | None) -> int:
    """A count, limited to the range of the database."""
    return min(max(value or 0, 0), 2**62)


def comment_id(comment: ItemComment) -> str:
    """The platform's id, or a digest of author and text without a usable one."""
    own = "" if comment.id is None else str(comment.id)
    if own and is_storable(own):
        return own
    said = f"{comment.author_name}\n{(comment.text or '')[:MAX_TEXT]}"
    return hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()[:32]
