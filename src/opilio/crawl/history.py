"""The typed value history of a URL: what changed, from what, to what."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

Scalar = str | int | float | bool | Decimal | None
_MOST_FIELDS = 50
_LONGEST_TEXT = 500


class Values(msgspec.Struct, frozen=True):
    """What a crawl found, reduced to the fields whose history is kept."""

    price: Decimal | None = None
    currency: str | None = None
    title: str | None = None
    in_stock: bool | None = None
    data: Mapping[str, Any] | None = None

    def same_as(self, other: "Values") -> bool:
        """Whether all but `data` is the same, to the digit: a price of 10.0 is stored as it was sent, also after one of 10.00."""
        price, was = self.price, other.price
        if (
            self.title != other.title
            or self.currency != other.currency
            or self.in_stock is not other.in_stock
        ):
            return False
        return price == was and (price is None or was is None or price.same_quantum(was))


class Change(msgspec.Struct, frozen=True):
    field: str
    old: Scalar
    new: Scalar


def tracked(data: Mapping[str, Any] | None) -> dict[str, Scalar]:
    """The plain values at the top of `data`; nested ones have no single value to compare."""
    if not data:
        return {}
    plain = {
        key: value[:_LONGEST_TEXT] if isinstance(value, str) else value
        for key, value in data.items()
        if value is None or isinstance(value, str | int | float | bool | Decimal)
    }
    return dict(sorted(plain.items())[:_MOST_FIELDS])


def changes(old: Values, new: Values) -> list[Change]:
    """Every field that has a new value; a field that this crawl did not report keeps its old one."""
    found: list[Change] = []
    if new.price is not None and new.price != old.price:
        found.append(Change("price", old.price, new.price))
    if new.currency is not None and new.currency != old.currency:
        found.append(Change("currency", old.currency, new.currency))
    if new.title is not None and new.title != old.title:
        found.append(Change("title", old.title, new.title))
    if new.in_stock is not None and new.in_stock != old.in_stock:
        found.append(Change("in_stock", old.in_stock, new.in_stock))
    if new.data:
        before = tracked(old.data)
        found += [
            Change(f"data.{key}", before.get(key), value)
            for key, value in tracked(new.data).items()
            if value is not None and not _same(before.get(key), value)
        ]
    return found


def remembered(old: Values, new: Values) -> dict[str, Scalar] | None:
    """The plain values of `data` after this crawl: the new ones, and old ones that were not reported as far as there
    is room, because pages may invent keys for ever. The other fields keep their last known value in the database.
    """
    if not new.data:
        return None
    known = {key: value for key, value in tracked(new.data).items() if value is not None}
    unsaid = [(key, value) for key, value in tracked(old.data).items() if key not in known]
    return known | dict(unsaid[: _MOST_FIELDS - len(known)]) or None


def _same(was: Scalar, now: Scalar) -> bool:
    """Equal in value and kind: 1 is not true, but 10.0 is 10.00."""
    if was is None:
        return False
    if type(was) is type(now) and not isinstance(now, float):  # most are: text, a price, in stock
        return was == now
    return isinstance(was, bool) == isinstance(now, bool) and _exact(was) == _exact(now)


def _exact(value: Scalar) -> Scalar:
    """A fraction comes from a bot as a float and from the database as the decimal that it was written as."""
    return Decimal(repr(value)) if isinstance(value, float) else value
