"""The strategy map: where the tasks of a platform go, and how its crawlers want them worded.

A platform is added by one entry here and one mapper.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, TypeAlias

from opilio.contracts.topology import task_queue

# TikTok searches by these spans of days alone; 0 is any time.
_TIKTOK_DAYS = (1, 7, 30, 90, 180)


@dataclass(frozen=True, slots=True)
class Search:
    """What is asked of a platform, before a platform's own words for it."""

    keywords: tuple[str, ...]
    limit: int
    time_range: int | None
    emitted_at: datetime
    payload: Mapping[str, Any]


Mapper: TypeAlias = Callable[[Search], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Strategy:
    """One platform: its queue, the routing key of its results, its payload mapper."""

    platform: str
    payload: Mapper

    @property
    def queue(self) -> str:
        return task_queue(self.platform).name

    @property
    def result_key(self) -> str:
        return f"crawler.{self.platform}.result"

    def delay_queue(self, retry: int) -> str:
        return task_queue(self.platform).delay_queue(retry)


def for_tiktok(search: Search) -> dict[str, Any]:
    """`publish_time` is the shortest of TikTok's spans that covers the days asked for."""
    days = search.time_range or 0
    span = next((span for span in _TIKTOK_DAYS if span >= days), 0) if days else 0
    return {**search.payload, "count": search.limit, "publish_time": span}


def for_youtube(search: Search) -> dict[str, Any]:
    """`published_after` is a moment, as YouTube's search wants it."""
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
