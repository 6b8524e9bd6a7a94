"""Reads a price from text as an exact amount and an ISO currency. No I/O.

Vietnamese forms are supported: `1.234.000 ₫`, `1,2 triệu`, `1tr290`, `999k`, `1 triệu 290 nghìn`.
"""

import re
import unicodedata
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from price_parser import Price

from opilio.bot.extract.currency import ANY_SIGN, CLEAR_SIGN, currency_in

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
# Only next to a currency sign: without one, "5 m" is a length.
_UNITS_WITH_SIGN = {
    "k": 10**3,
    "m": 10**6,
    "mn": 10**6,
    "mio": 10**6,
    "million": 10**6,
    "millions": 10**6,
    "b": 10**9,
    "bn": 10**9,
    "billion": 10**9,
}
_WITH_UNIT = re.compile(rf"(?<![\w.,])(\d[\d.,]*)\s*({'|'.join(_UNITS)})(\d{{1,3}})?(?![\w])", re.IGNORECASE)
_NUMBER = r"\d{1,3}(?:[ ']\d{3})+(?!\d)(?:[.,]\d{1,2})?|\d(?:[\d.,]*\d)?"
_UNIT = rf"(?:(?i:{'|'.join(sorted(_UNITS_WITH_SIGN, key=len, reverse=True))})(?![^\W\d_]))"


def _beside(sign: str) -> re.Pattern[str]:
    """A number next to a currency sign, with a unit between or after them."""
    return re.compile(
        rf"(?P<around>\d[\d.]*[€£$]\d\d)(?!\d)"
        rf"|(?P<before>{_NUMBER})\s*(?P<unit_before>{_UNIT})?\s*{sign}"
        rf"|{sign}\s*(?P<after>{_NUMBER})(?:\s*(?P<unit_after>{_UNIT}))?"
    )


# A clear sign is preferred over words such as "ft", which are also measures: "5 ft cable, $20".
_BESIDE_SIGN = (_beside(CLEAR_SIGN), _beside(ANY_SIGN))
_SIGN_BEFORE = re.compile(rf"{ANY_SIGN}\s*$")
_SIGN_AFTER = re.compile(rf"\s*{ANY_SIGN}")
_START_OF_RANGE = re.compile(rf"({_NUMBER})\s*{ANY_SIGN}?\s*(?:-|–|—|~|đến)\s*$")  # noqa: RUF001
# Screens and videos: "4K TV", "màn hình 2K". A price only where the text says so.
_RESOLUTION = re.compile(r"(?<![\w.,])[24568]\s?K(?![\w])", re.IGNORECASE)
_SCREEN = re.compile(
    r"\b(?:tv|tivi|ti vi|uhd|ultra hd|qled|oled|hdr|monitor|display|video|camera|màn hình|man hinh|projector)\b",
    re.IGNORECASE,
)
_GROUPED = re.compile(r"\d[.,]\d{3}(?!\d)")
_FREE = re.compile(r"^\W*(free|gratis|kostenlos|gratuit|miễn phí)\W*$", re.IGNORECASE)
_SPACES = re.compile(r"[\s\u00a0\u202f\u2009']+")
# Currencies with three decimals: `1.234` is one unit and a fraction.
_THREE_DECIMALS = {"BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"}
_LONGEST_TEXT = 300
# A larger number is an id, not a price, in every currency.
MOST = Decimal(10) ** 15


class Money(NamedTuple):
    amount: Decimal
    currency: str | None


def parse_money(text: str, currency: str | None = None, regions: Sequence[str] = ()) -> Money | None:
    """Returns the first price in the text; `currency` and `regions` resolve ambiguous signs such as `$` and `kr`."""
    text = unicodedata.normalize("NFKC", text[:_LONGEST_TEXT]).strip()
    if re.match(r"-\s*\d", text):
        return None
    if _FREE.match(text):
        return Money(Decimal(0), currency)
    known = currency_in(text, regions) or currency
    text = _without_resolution(text)
    beside, in_units = _beside_sign(text, known), _amount_in_units(text)
    if in_units is not None and (beside is None or in_units.beside_sign):
        signed = re.search(CLEAR_SIGN, text) is not None
        return Money(in_units.amount, known or (None if signed else "VND"))
    amount = beside if beside is not None else _only_number(text, known)
    return None if amount is None or amount >= MOST else Money(amount, known)


def parse_number(text: str, currency: str | None = None) -> Decimal | None:
    """Parses a number with any separators: of two kinds the last is the decimal point, and one before three digits groups."""
    digits = _SPACES.sub("", text).rstrip(".,-")
    if match := re.fullmatch(r"([\d.,]*\d)[^\d.,](\d\d)", digits):
        # 1.299€95: the sign is the decimal point.
        return Decimal(re.sub(r"[.,]", "", match[1]) + "." + match[2])
    if not re.fullmatch(r"[\d.,]*\d", digits):
        return None
    return Decimal(_with_point(digits, currency))


def _only_number(text: str, currency: str | None) -> Decimal | None:
    number = Price.fromstring(text).amount_text
    return None if number is None else parse_number(number, currency)


def _beside_sign(text: str, currency: str | None) -> Decimal | None:
    """The number next to a currency sign; of a range the lower end."""
    match = next((found for pattern in _BESIDE_SIGN if (found := pattern.search(text))), None)
    if match is None:
        return None
    unit = _UNITS_WITH_SIGN.get((match["unit_before"] or match["unit_after"] or "").lower(), 1)
    start = _START_OF_RANGE.search(text[: match.start()])
    number = start[1] if start else match["around"] or match["after"] or match["before"]
    amount = parse_number(number, currency)
    return amount if amount is None or unit == 1 else _without_zeros(amount * unit)


def _without_resolution(text: str) -> str:
    """The text without "4K" and the like, where it names a screen or another number is the price."""
    rest = _RESOLUTION.sub(" ", text)
    return rest if rest != text and (_SCREEN.search(text) or re.search(r"\d", rest)) else text


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


class _InUnits(NamedTuple):
    amount: Decimal
    beside_sign: bool


def _amount_in_units(text: str) -> _InUnits | None:
    """`1,2 triệu`, `1tr290` (one million two hundred ninety thousand), `1 triệu 290 nghìn`."""
    if _GROUPED.search(_WITH_UNIT.sub("", text)):
        # "Trả góp 500k, 12.990.000đ": the price is the long number.
        return None
    total: Decimal | None = None
    below, start, end = 10**12, 0, None
    for match in _WITH_UNIT.finditer(text):
        number, unit, rest = match[1], _UNITS[match[2].lower()], match[3]
        apart = end is not None and text[end : match.start()].strip() != ""
        if unit >= below or apart:
            break
        if (amount := parse_number(number)) is None:
            break
        if rest:
            amount += Decimal(f"0.{rest}")
        start = match.start() if total is None else start
        total = (total or Decimal(0)) + amount * unit
        below, end = unit, match.end()
    if total is None or end is None:
        return None
    beside = _SIGN_BEFORE.search(text[:start]) or _SIGN_AFTER.match(text, end)
    return _InUnits(_without_zeros(total), beside is not None)


def _without_zeros(amount: Decimal) -> Decimal:
    """1200000, not 1200000.0 and not 1.2E+6."""
    return amount.to_integral() if amount == amount.to_integral() else amount
