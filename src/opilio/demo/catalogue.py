"""What the demo shop sells and what it costs at a given time. No I/O, no randomness: the same time, the same price."""

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeVar

T = TypeVar("T")
Layout = Literal["json-ld", "microdata", "opengraph", "plain", "state", "javascript"]
Mood = Literal["well", "slow", "glacial", "missing", "removed", "busy", "broken", "forbidden"]

PRODUCTS = 200
_HOUR, _DAY = 3600, 86_400
_KINDS = (
    ("Nồi cơm điện", "Rice cooker", 890_000),
    ("Tai nghe không dây", "Wireless headphones", 1_290_000),
    ("Bàn phím cơ", "Mechanical keyboard", 1_650_000),
    ("Đèn bàn", "Desk lamp", 349_000),
    ("Quạt đứng", "Standing fan", 720_000),
    ("Ấm siêu tốc", "Kettle", 415_000),
    ("Balo du lịch", "Travel backpack", 980_000),
    ("Giày chạy bộ", "Running shoes", 2_190_000),
)
_MODELS = ("Sông Hồng", "Hạ Long", "Đà Lạt", "Phú Quốc", "Sa Pa", "Cần Thơ", "Hội An", "Mũi Né")
# Where the page stops being well: by number, so that the same page always misbehaves the same way.
_MOODS: dict[range, Mood] = {
    range(181, 187): "slow",
    range(187, 188): "glacial",
    range(188, 191): "missing",
    range(191, 192): "removed",
    range(192, 195): "busy",
    range(195, 199): "broken",
    range(199, 201): "forbidden",
}
_LAYOUTS: dict[range, Layout] = {
    range(1, 61): "json-ld",
    range(61, 111): "microdata",
    range(111, 151): "plain",
    range(151, 166): "opengraph",
    range(166, 176): "state",
    range(176, 181): "javascript",
}
# Vietnamese đồng for most; some layouts are in other money, to show that it comes out right.
_RATES = {"VND": Decimal(1), "EUR": Decimal("0.000036"), "USD": Decimal("0.000040"), "JPY": Decimal("0.0058")}


@dataclass(frozen=True, slots=True)
class Product:
    number: int
    title: str
    currency: str
    layout: Layout
    mood: Mood
    base: int


@dataclass(frozen=True, slots=True)
class Quote:
    """A product at one moment."""

    price: Decimal
    in_stock: bool


def product(number: int) -> Product | None:
    """The product with this number, or None: the shop has 1 to 200."""
    if not 1 <= number <= PRODUCTS:
        return None
    vietnamese, english, base = _KINDS[number % len(_KINDS)]
    model = f"{_MODELS[number // len(_KINDS) % len(_MODELS)]} {number:03}"
    currency = _currency(number)
    return Product(
        number=number,
        title=f"{vietnamese if currency == 'VND' else english} {model}",
        currency=currency,
        layout=_of_range(_LAYOUTS, number, "json-ld"),
        mood=_of_range(_MOODS, number, "well"),
        base=base + 10_000 * (number % 7),
    )


def quote(item: Product, at: float) -> Quote:
    """Price and stock at a time in seconds: small steps every few minutes, a slow drift, now and then a sale."""
    step = int(at // (60 * (4 + item.number % 4)))
    small = 0.02 * math.sin(step * 0.9 + item.number) + 0.01 * math.sin(step * 2.3 + 2 * item.number)
    drift = 0.07 * math.sin(2 * math.pi * at / (5 * _DAY) + item.number)
    sale = -0.18 if (int(at // _DAY) + item.number) % 11 == 0 else 0.0
    raw = Decimal(item.base) * Decimal(str(round(1 + small + drift + sale, 3))) * _RATES[item.currency]
    return Quote(price=_rounded(raw, item.currency), in_stock=(int(at // _HOUR) + item.number) % 13 != 0)


def _currency(number: int) -> str:
    if 21 <= number <= 60 and number % 4 == 0:
        return ("EUR", "USD", "JPY")[number // 4 % 3]
    return "EUR" if 141 <= number <= 150 else "VND"


def _rounded(price: Decimal, currency: str) -> Decimal:
    if currency == "VND":
        return (price / 1000).quantize(Decimal(1)) * 1000
    return price.quantize(Decimal(1) if currency == "JPY" else Decimal("0.01"))


def _of_range(table: dict[range, T], number: int, default: T) -> T:
    return next((value for numbers, value in table.items() if number in numbers), default)
