"""What the lists of the management API have in common."""

from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import Meta

from opilio.crawl.url import domain_name
from opilio.errors import Invalid

LONGEST_TEXT = 2048


class ListQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=500)] = 50
    cursor: Annotated[str, Meta(max_length=500)] | None = None


def whole(items: list[Any]) -> dict[str, Any]:
    """A list that is never long, in the form of the long ones."""
    return {"items": items, "next_cursor": None}


def host_name(text: str | None) -> str | None:
    return None if text is None else domain_name(text)


def uuid_of(field: str, text: str | None) -> UUID | None:
    if text is None:
        return None
    try:
        return UUID(text)
    except ValueError:
        raise Invalid(field, "must be a UUID") from None
