"""The loose shapes of structured data: one or many, text or number, an address in five spellings. No I/O."""

import html
import re
from decimal import Decimal
from typing import Any


def listed(value: Any) -> list[Any]:
    """Schema.org lets every value be one or many."""
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]


def first(value: Any) -> Any:
    while isinstance(value, list):
        value = value[0] if value else None
    return value


def text_of(value: Any) -> str | None:
    """The first value as one line of text; None when it is no text or empty."""
    value = first(value)
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        return None
    return " ".join(html.unescape(value).split()) or None


def last_word(term: Any) -> str:
    """`https://schema.org/ListPrice`, `schema:ListPrice` and `ListPrice` are the same term."""
    return re.split(r"[/#:]", str(first(term)))[-1].lower()


def same_page(address: Any, page: str) -> bool:
    """Whether two addresses mean the same page: scheme, `www.`, fragment and a last slash do not matter."""
    return isinstance(address, str) and bool(page) and _bare(address) == _bare(page)


def _bare(address: str) -> str:
    return re.sub(r"^https?://(www\.)?", "", address.strip().partition("#")[0].lower()).rstrip("/")
