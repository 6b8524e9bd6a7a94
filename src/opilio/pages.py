"""Pages of long lists: an opaque cursor names the last row; one row more than asked for tells of another page."""

import base64
from collections.abc import Callable, Sequence
from typing import Generic, NoReturn, TypeVar
from uuid import UUID

import msgspec

from opilio.errors import Invalid

T = TypeVar("T")
R = TypeVar("R")
_MOST_DIGITS = 18  # what a bigint holds for certain


class Page(msgspec.Struct, Generic[T], kw_only=True):
    """Part of a list; `next_cursor` asks for the part behind it and is null at the end."""

    items: list[T]
    next_cursor: str | None


def page_of(rows: Sequence[R], limit: int, make: Callable[[R], T], key: Callable[[R], object]) -> Page[T]:
    """The first `limit` rows; `rows` holds one more when there is another page."""
    more = len(rows) > limit
    return Page(
        items=[make(row) for row in rows[:limit]],
        next_cursor=write_cursor(str(key(rows[limit - 1]))) if more else None,
    )


def write_cursor(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_text(cursor: str | None) -> str | None:
    if cursor is None:
        return None
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except ValueError:  # not ASCII, not base64, or not text
        refuse_cursor()
    if "\0" in text:
        refuse_cursor()
    return text


def read_uuid(cursor: str | None) -> UUID | None:
    text = read_text(cursor)
    try:
        return None if text is None else UUID(text)
    except ValueError:
        refuse_cursor()


def read_number(cursor: str | None) -> int | None:
    text = read_text(cursor)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > _MOST_DIGITS:
        refuse_cursor()
    return int(text)


def refuse_cursor() -> NoReturn:
    raise Invalid("cursor", "is not a cursor that this list gave out") from None
