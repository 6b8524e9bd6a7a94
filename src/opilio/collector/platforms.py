"""The strategy map: the queue of each platform and the payload format of its crawlers.

To add a platform, add one entry and one mapper here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, TypeAlias

from opilio.contracts.topology import task_queue

# TikTok can only search these ranges of days; 0 is any time.
_TIKTOK_DAYS = (1, 7, 30, 90, 180)


@dataclass(frozen=True, slots=True)
class Search:
    """A search, before it is mapped to a platform's payload."""

    keywords: tuple[str, ...]
    limit: int
    time_range: int | None
    emitted_at: datetime
    payload: Mapping[str, Any]


Mapper: TypeAlias = Callable[[Search], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Strategy:
    """One platform: its queue and its payload mapper."""

    platform: str
    payload: Mapper

    @property
    def queue(self) -> str:
        return task_queue(self.platform).name


def for_tiktok(search: Search) -> dict[str, Any]:
    """`publish_time` is the shortest of TikTok's ranges that covers the requested days."""
    days = search.time_range or 0
    span = next((span for span in _TIKTOK_DAYS if span >= days), 0) if days else 0
    return {**search.payload, "count": search.limit, "publish_time": span}


def for_youtube(search: Search) -> dict[str, Any]:
    """`published_after` is a timestamp, the format of YouTube's search."""
    mapped: dict[str, Any] = {**search.payload, "max_results": search.limit}
    if search.time_range is not None:
        since = search.emitted_at - timedelta(days=search.time_range)
        mapped["published_after"] = since.strftime("%Y-%m-%dT%H:%M:%SZ")
    return mapped


PLATFORMS: Mapping[str, Strategy] = MappingProxyType(
    {
        "tiktok": Strategy("tiktok", for_tiktok),
        "youtube": Strategy("youtube", for_youtube),
    }
)
