"""The types of a search function: it gets a task and yields items."""

from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias

import msgspec

from opilio.contracts.collector import CrawlTask

Task: TypeAlias = CrawlTask


class Item(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A post that was fetched. `meta` adds to what the SDK fills in; platform ids are strings."""

    id: str
    content: dict[str, Any] = {}
    interaction: dict[str, Any] = {}
    author: dict[str, Any] = {}
    comments: list[dict[str, Any]] = []
    meta: dict[str, Any] = {}


class Failed(msgspec.Struct, kw_only=True):
    """A post that was found but not fetched: why, by a code of the item-level taxonomy."""

    id: str
    code: str
    message: str = ""
    details: dict[str, Any] = {}
    permalink: str | None = None


class Skipped(msgspec.Struct, kw_only=True):
    """A post that was left out on purpose: a duplicate, or not a match."""

    id: str


class Found(msgspec.Struct, kw_only=True):
    """How many posts the platform has; without it, as many as were yielded."""

    total: int


Yielded: TypeAlias = Item | Failed | Skipped | Found
Search: TypeAlias = Callable[[CrawlTask], AsyncIterator[Yielded]]


class CrawlFailed(Exception):
    """The task failed as a whole, by a task-level code: SEARCH_FAILED, RATE_LIMITED, BLOCKED …"""

    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(message or code)
        self.code = code
        self.message = message or code
