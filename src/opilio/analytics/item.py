"""One crawled post as it comes from a crawler, and as the stages want it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from opilio.analytics.message import BatchContext
from opilio.analytics.stages.document import Figures
from opilio.contracts.codes import ErrorCode
from opilio.contracts.items import CollectedItem, ItemComment
from opilio.project_id import extract_project_id

MAX_TEXT = 1 << 20
MAX_COMMENTS = 1000
_LONGEST_ID = 512


_ITEM = msgspec.json.Decoder(CollectedItem, strict=False)
_COMMENT = msgspec.json.Decoder(ItemComment, strict=False)


@dataclass(frozen=True, slots=True)
class Failure:
    """An item without a post: the crawler failed at it, or it cannot be read."""

    content_id: str
    code: str
    message: str
    details: Any = None


def parse_item(
    raw: bytes, context: BatchContext, position: int
) -> tuple[CollectedItem | None, Failure | None]:
    """The item, the failure it reports, or both."""
    try:
        item = _ITEM.decode(raw)
        content_id = _content_id(item)
    except (msgspec.DecodeError, ValueError) as error:
        stand_in = f"{context.job_id or 'item'}:{context.batch_index or 0}:{position}"
        return None, Failure(stand_in, ErrorCode.PARSE_ERROR, str(error), {"position": position})
    meta = item.meta
    if (meta.fetch_status or "success").lower() != "error":
        return item, None
    message = meta.error_message or meta.fetch_error or ""
    return item, Failure(content_id, meta.error_code or ErrorCode.UNKNOWN_ERROR, message, meta.error_details)


def _content_id(item: CollectedItem) -> str:
    content_id = str(item.meta.id).strip()
    if not content_id or len(content_id) > _LONGEST_ID:
        raise ValueError(f"meta.id must have 1 to {_LONGEST_ID} characters")
    return content_id


def comments_of(item: CollectedItem) -> list[ItemComment]:
    """The comments that can be read and say something."""
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
    """What the author says: the caption, then the spoken words."""
    parts = (item.content.text, item.content.transcription)
    return "\n".join(part for part in parts if part)


def project_of(item: CollectedItem, context: BatchContext) -> str | None:
    if context.project_id or not item.meta.job_id:
        return context.project_id
    return extract_project_id(item.meta.job_id)


def figures_of(item: CollectedItem, platform: str, now: datetime) -> Figures:
    published = moment(item.meta.published_at)
    seen = moment(item.meta.crawled_at) or now
    counts, author = item.interaction, item.author
    return Figures(
        platform=platform,
        views=_count(counts.views),
        likes=_count(counts.likes),
        comments=_count(counts.comments_count),
        shares=_count(counts.shares),
        saves=_count(counts.saves),
        followers=_count(author.followers),
        verified=bool(author.is_verified),
        age_hours=max((seen - published).total_seconds() / 3600, 0.0) if published else None,
    )


def moment(value: Any) -> datetime | None:
    """A time as crawlers write it: ISO 8601, or seconds or milliseconds since 1970; None where it is neither."""
    try:
        if isinstance(value, str) and value:
            found = datetime.fromisoformat(value.strip())
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found = datetime.fromtimestamp(value / 1000 if value > 1e11 else value, UTC)
        else:
            return None
    except (ValueError, OverflowError, OSError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _count(value: int | None) -> int:
    return min(max(value or 0, 0), 2**62)
