"""JSON from outside, within bounds: numbers that keep their digits, values that can be stored, arrays cut lazily."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from itertools import chain
from typing import Any

import msgspec

from opilio.errors import Invalid

MOST_DIGITS = 100
# How deep JSON may be nested: far beyond what pages need, below what the database or a recursive reader can take.
DEEPEST = 64


def exact_number(text: str) -> Decimal:
    """For decoders: a fraction as it was written; an exponent that no decimal can hold is refused."""
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError("Number out of range") from None


_decode_fast = msgspec.json.Decoder(float_hook=exact_number).decode


def decode_stored(text: str | bytes) -> Any:
    """Reads what the database holds: older versions stored integers longer than the fast decoder takes."""
    try:
        return _decode_fast(text)
    except msgspec.DecodeError:
        return json.loads(text, parse_float=Decimal, parse_int=_any_integer)


def _any_integer(text: str) -> int | Decimal:
    return int(text) if len(text) <= 300 else Decimal(text)


_NUMBERS = (int, float, Decimal)
_PLAIN = (str, *_NUMBERS)


def check_json(field: str, value: Any) -> None:
    """Refuses what PostgreSQL, or a reader of the stored value, could not take."""
    level = [value]
    for _ in range(DEEPEST + 1):
        for item in level:
            if isinstance(item, str) and "\x00" in item:
                raise Invalid(field, "contains the character U+0000")
            if isinstance(item, _NUMBERS) and not _is_bounded(item):
                raise Invalid(
                    field,
                    "contains a number out of range; numbers have at most %(digits)s digits and fit a double",
                    digits=MOST_DIGITS,
                )
        level = [inner for item in level for inner in _inside(item)]
        if not level:
            return
    raise Invalid(field, "is nested more than %(depth)s levels deep", depth=DEEPEST)


def _is_bounded(number: int | float | Decimal) -> bool:  # noqa: PYI041 - an int is not bounded as a float is
    """Whether a number fits a double, without overflow or underflow, and has no more digits than allowed."""
    if isinstance(number, bool):
        return True
    if isinstance(number, float):
        return math.isfinite(number)
    if isinstance(number, int):
        return len(str(abs(number))) <= MOST_DIGITS
    if not number.is_finite() or len(number.as_tuple().digits) > MOST_DIGITS:
        return False
    try:
        as_double = float(number)
    except OverflowError:
        return False
    return math.isfinite(as_double) and (as_double != 0 or number == 0)


# ── arrays ───────────────────────────────────────────────────────────────────────────────────────

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},]', re.DOTALL)
_MOST_TOKENS = 5_000_000
_PIECES = msgspec.json.Decoder(list[msgspec.Raw])
_OPENING, _CLOSING, _COMMA = b"[{", b"]}", b","


class TooManyItemsError(ValueError):
    """An array with more items than the limit, found before they were built."""


def split_array(text: bytes, most: int) -> list[bytes]:
    """The items of a JSON array, each still undecoded; ValueError if it is not one, or has more than `most`.

    A few bytes can be compressed to millions of items: above a number of commas they are not handed to the decoder,
    which would build them all, but counted one by one up to the limit.
    """
    if not text.lstrip().startswith(b"["):
        raise ValueError("is not an array")
    if text.count(_COMMA) <= max(20_000, 50 * most):
        try:
            items = [bytes(item) for item in _PIECES.decode(text)]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"is not valid JSON: {error}") from None
        if len(items) > most:
            raise TooManyItemsError(f"has {len(items)} items; at most {most} are allowed")
        return items
    return _split_slowly(text, most)


def _split_slowly(text: bytes, most: int) -> list[bytes]:
    items: list[bytes] = []
    depth = start = 0
    for number, token in enumerate(_TOKEN.finditer(text)):
        if number > _MOST_TOKENS:
            raise TooManyItemsError("has too many values")
        sign = token.group() if token.end() - token.start() == 1 else b""
        if sign and sign in _OPENING:
            depth += 1
            start = token.end() if depth == 1 else start
        elif sign and sign in _CLOSING:
            depth -= 1
        if (sign == _COMMA and depth == 1) or (sign and sign in _CLOSING and depth == 0):
            if len(items) == most:
                raise TooManyItemsError(f"has more than {most} items")
            items.append(text[start : token.start()].strip())
            start = token.end()
            if depth == 0:
                break
    if depth != 0 or text[start:].strip():
        raise ValueError("is not valid JSON")
    return items


def _inside(value: Any) -> Iterable[Any]:
    # First, because most values are plain, and a Mapping is told slowly.
    if value is None or isinstance(value, _PLAIN):
        return ()
    if isinstance(value, Mapping):
        return chain(value.keys(), value.values())
    return value if isinstance(value, list) else ()
