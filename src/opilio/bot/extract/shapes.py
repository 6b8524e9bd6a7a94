"""Normalises loosely typed structured data: one or many, text or number, URL variants. No I/O."""

import html
import re
from decimal import Decimal
from typing import Any


def listed(value: Any) -> list[Any]:
    """Returns a list: schema.org allows one value or several everywhere."""
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]


def first(value: Any) -> Any:
    while isinstance(value, list):
        value = value[0] if value else None
    return value


def text_of(value: Any) -> str | None:
    """The first value as one line of text; None when it is empty or not text."""
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
    """Compares two URLs, ignoring scheme, `www.`, fragment and trailing slash."""
    return isinstance(address, str) and bool(page) and _bare(address) == _bare(page)


def _bare(address: str) -> str:
    return re.sub(r"^https?://(www\.)?", "", address.strip().partition("#")[0].lower()).rstrip("/")
