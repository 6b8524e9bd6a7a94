"""Prices as people write them → an exact amount and an ISO currency. No I/O.

Vietnamese comes first here: `1.234.000 ₫`, `1,2 triệu`, `1tr290`, `999k`, `1 triệu 290 nghìn`.
"""

import re
import unicodedata
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from price_parser import Price

from opilio.bot.extract.currency import ANY_SIGN, currency_in

_UNITS = {
    "tỷ": 10**9,
    "tỉ": 10**9,
    "triệu": 10**6,
    "trieu": 10**6,
    "tr": 10**6,
    "nghìn": 10**3,
    "nghin": 10**3,
    "ngàn": 10**3,
    "ngan": 10**3,
    "k": 10**3,
}
_WITH_UNIT = re.compile(rf"(?<![\w.,])(\d[\d.,]*)\s*({'|'.join(_UNITS)})(\d{{1,3}})?(?![\w])", re.IGNORECASE)
_NUMBER = r"\d{1,3}(?:[ ']\d{3})+(?!\d)(?:[.,]\d{1,2})?|\d(?:[\d.,]*\d)?"
_BESIDE_SIGN = re.compile(
    rf"(?P<around>\d[\d.]*[€£$]\d\d)(?!\d)|(?P<before>{_NUMBER})\s*{ANY_SIGN}|{ANY_SIGN}\s*(?P<after>{_NUMBER})"
)
_START_OF_RANGE = re.compile(rf"({_NUMBER})\s*{ANY_SIGN}?\s*(?:-|–|—|~|đến)\s*$")  # noqa: RUF001
_GROUPED = re.compile(r"\d[.,]\d{3}(?!\d)")
_FREE = re.compile(r"^\W*(free|gratis|kostenlos|gratuit|miễn phí)\W*$", re.IGNORECASE)
_SPACES = re.compile(r"[\s\u00a0\u202f\u2009']+")
# These are written with three decimals, so that `1.234` is little more than one of them.
_THREE_DECIMALS = {"BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"}
_LONGEST_TEXT = 300
# Beyond this it is an id or a joke, in every currency.
MOST = Decimal(10) ** 15


class Money(NamedTuple):
    amount: Decimal
    currency: str | None


def parse_money(text: str, currency: str | None = None, regions: Sequence[str] = ()) -> Money | None:
    """The first price in the text; `currency` and `regions` settle what the text leaves open (`$`, `kr`)."""
    text = unicodedata.normalize("NFKC", text[:_LONGEST_TEXT]).strip()
    said = currency_in(text, regions)
    if re.match(r"-\s*\d", text):
        return None
    if _FREE.match(text):
        return Money(Decimal(0), currency)
    if (amount := _amount_in_units(text)) is not None:
        return Money(amount, said or currency or "VND")
    known = said or currency
    number = _beside_sign(text) or Price.fromstring(text).amount_text
    amount = None if number is None else parse_number(number, known)
    return None if amount is None or amount >= MOST else Money(amount, known)


def parse_number(text: str, currency: str | None = None) -> Decimal | None:
    """A number with whatever separators: the last of two kinds is decimal, three digits after one are not."""
    digits = _SPACES.sub("", text).rstrip(".,-")
    if match := re.fullmatch(r"([\d.,]*\d)[^\d.,](\d\d)", digits):
        # 1.299€95: the sign is the point.
        return Decimal(re.sub(r"[.,]", "", match[1]) + "." + match[2])
    if not re.fullmatch(r"[\d.,]*\d", digits):
        return None
    return Decimal(_with_point(digits, currency))


def _beside_sign(text: str) -> str | None:
    """The number that a currency stands beside ("5 ft cable, $20"); of a range the lower end."""
    match = _BESIDE_SIGN.search(text)
    if match is None:
        return None
    start = _START_OF_RANGE.search(text[: match.start()])
    return start[1] if start else match["around"] or match["after"] or match["before"]


def _with_point(digits: str, currency: str | None) -> str:
    last = max(digits.rfind("."), digits.rfind(","))
    if last < 0:
        return digits
    mark = digits[last]
    whole, fraction = digits[:last], digits[last + 1 :]
    plain = re.sub(r"[.,]", "", whole)
    mixed = len(set(re.findall(r"[.,]", digits))) == 2
    repeated = digits.count(mark) > 1 and len(fraction) == 3
    if repeated or (not mixed and _is_grouping(plain, fraction, currency)):
        return plain + fraction
    return f"{plain or '0'}.{fraction}"


def _is_grouping(whole: str, fraction: str, currency: str | None) -> bool:
    return len(fraction) == 3 and whole.strip("0") != "" and currency not in _THREE_DECIMALS


def _amount_in_units(text: str) -> Decimal | None:
    """`1,2 triệu`, `1tr290` (one million two hundred ninety thousand), `1 triệu 290 nghìn`."""
    if _GROUPED.search(_WITH_UNIT.sub("", text)):
        # "Tivi 4K 12.990.000đ": the price is the long number.
        return None
    total: Decimal | None = None
    below, end = 10**12, None
    for match in _WITH_UNIT.finditer(text):
        number, unit, rest = match[1], _UNITS[match[2].lower()], match[3]
        apart = end is not None and text[end : match.start()].strip() != ""
        if unit >= below or apart:
            break
        if (amount := parse_number(number)) is None:
            break
        if rest:
            amount += Decimal(f"0.{rest}")
        total = (total or Decimal(0)) + amount * unit
        below, end = unit, match.end()
    return None if total is None else _without_zeros(total)


def _without_zeros(amount: Decimal) -> Decimal:
    """1200000, not 1200000.0 and not 1.2E+6."""
    return amount.to_integral() if amount == amount.to_integral() else amount
