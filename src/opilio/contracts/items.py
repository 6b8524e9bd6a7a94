"""An item of a batch: a post as crawlers write it, or what kept them from getting it."""

from typing import Any

import msgspec


class ItemMeta(msgspec.Struct, kw_only=True):
    """What the item is; with `fetch_status` "error" it has no post, and the code says why."""

    id: str | int
    platform: str | None = None
    fetch_status: str | None = None
    published_at: Any = None
    crawled_at: Any = None
    permalink: str | None = None
    job_id: str | None = None
    task_type: str | None = None
    keyword_source: str | None = None
    pipeline_version: str | None = None
    lang: str | None = None
    region: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    fetch_error: str | dict[str, Any] | None = None  # a text, a code, or {code, message}
    error_details: Any = None


class ItemContent(msgspec.Struct, kw_only=True):
    text: str | None = None
    transcription: str | None = None
    duration: float | None = None
    hashtags: list[str] | None = None


class ItemInteraction(msgspec.Struct, kw_only=True):
    views: int | None = None
    likes: int | None = None
    comments_count: int | None = None
    shares: int | None = None
    saves: int | None = None


class ItemAuthor(msgspec.Struct, kw_only=True):
    id: str | int | None = None
    name: str | None = None
    username: str | None = None
    avatar_url: str | None = None
    followers: int | None = None
    is_verified: bool | None = None


class ItemComment(msgspec.Struct, kw_only=True):
    text: str | None = None
    id: str | int | None = None
    author_name: str | None = None
    likes: int | None = None
    created_at: Any = None


class CollectedItem(msgspec.Struct, kw_only=True):
    """Only `meta.id` is indispensable. Times are ISO 8601, or seconds or milliseconds since 1970."""

    meta: ItemMeta
    content: ItemContent = msgspec.field(default_factory=ItemContent)
    interaction: ItemInteraction = msgspec.field(default_factory=ItemInteraction)
    author: ItemAuthor = msgspec.field(default_factory=ItemAuthor)
    comments: list[msgspec.Raw] = msgspec.field(default_factory=list)
