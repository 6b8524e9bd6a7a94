"""A price as bots send it: a JSON number, or the same digits as a text; exact either way."""

import re
from decimal import Decimal, InvalidOperation

import msgspec

MOST_DIGITS, MOST_DECIMALS = 18, 6
# Nearly every price: what this matches has none of the faults below.
_USUAL = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,6})?")
_DIGITS = re.compile(r'"-?[0-9]+(?:\.[0-9]+)?"|-?[0-9][0-9.eE+-]*')


def read_price(raw: msgspec.Raw) -> Decimal | None:
    """The price without any rounding; a `ValueError` says what is wrong with it."""
    text = str(raw, "utf-8", "replace")
    if _USUAL.fullmatch(text):
        return Decimal(text)
    if text == "null":
        return None
    if not _DIGITS.fullmatch(text):
        raise ValueError('must be a number, or its digits as a text such as "99.90"')
    try:
        price = Decimal(text.strip('"'))
    except InvalidOperation:  # an exponent beyond what even a decimal can hold
        raise _too_long() from None
    if price < 0:
        raise ValueError("must not be negative")
    exponent = int(price.as_tuple().exponent)
    if price.adjusted() >= MOST_DIGITS or -exponent > MOST_DECIMALS:
        raise _too_long()
    return abs(price)  # normalise -0


def _too_long() -> ValueError:
    return ValueError(f"has more than {MOST_DIGITS} digits, or more than {MOST_DECIMALS} decimals")
