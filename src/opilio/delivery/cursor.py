"""Pages of lists: one row more than asked for tells whether there is another page."""

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from opilio.contracts.webhooks import Page
from opilio.errors import Invalid

T = TypeVar("T")


def page_of(items: list[T], limit: int, key: Callable[[T], Any]) -> Page[T]:
    more = len(items) > limit
    kept = items[:limit]
    return Page(items=kept, next_cursor=str(key(kept[-1])) if more and kept else None)


def parse_uuid(cursor: str | None) -> UUID | None:
    try:
        return UUID(cursor) if cursor else None
    except ValueError:
        raise Invalid("cursor", "is not one that a list answered") from None


def parse_number(cursor: str | None) -> int | None:
    try:
        return int(cursor) if cursor else None
    except ValueError:
        raise Invalid("cursor", "is not one that a list answered") from None
