"""Chooses one of several offers: this page's first, then in stock, then new, then the lowest price."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from opilio.bot.extract.availability import parse_availability
from opilio.bot.extract.currency import as_code
from opilio.bot.extract.money import MOST, parse_money
from opilio.bot.extract.shapes import first, last_word, listed, same_page, text_of

_MOST_OFFERS = 500
# Former and recommended prices are not what the buyer pays.
_NOT_PAID = {"listprice", "strikethroughprice", "suggestedretailprice", "msrp", "srp", "regularprice"}


@dataclass(frozen=True, slots=True)
class Offer:
    price: Decimal
    currency: str | None
    in_stock: bool | None
    url: str | None = None
    used: bool = False


def best_offer(offers: list[Any], page: str = "", regions: Sequence[str] = ()) -> Offer | None:
    read = [
        found for offer in offers[:_MOST_OFFERS] if isinstance(offer, dict) for found in _read(offer, regions)
    ]
    return min(
        read,
        key=lambda offer: (not same_page(offer.url, page), offer.in_stock is False, offer.used, offer.price),
        default=None,
    )


def _read(offer: dict[str, Any], regions: Sequence[str]) -> list[Offer]:
    """The offers in one node; an AggregateOffer holds several, or a range whose lower end is used."""
    inner = [part for part in listed(offer.get("offers")) if isinstance(part, dict)]
    if inner:
        shared: dict[str, Any] = {
            key: offer[key] for key in ("priceCurrency", "availability") if key in offer
        }
        parts = [found for part in inner[:_MOST_OFFERS] for found in _read({**shared, **part}, regions)]
        if parts:
            return parts
    found = _price(offer, regions)
    if found is None:
        return []
    condition = last_word(offer.get("itemCondition"))
    return [
        Offer(
            *found,
            in_stock=parse_availability(first(offer.get("availability"))),
            url=text_of(offer.get("url")),
            used=condition.startswith(("used", "refurbished", "damaged")),
        )
    ]


def _price(offer: dict[str, Any], regions: Sequence[str]) -> tuple[Decimal, str | None] | None:
    """The price of a node, from the node itself or its price specifications."""
    holders = [offer, *(part for part in listed(offer.get("priceSpecification")) if isinstance(part, dict))]
    for holder in holders:
        if last_word(holder.get("priceType")) in _NOT_PAID:
            continue
        currency = as_code(
            text_of(holder.get("priceCurrency")) or text_of(offer.get("priceCurrency")), regions
        )
        for key in ("price", "lowPrice", "minPrice"):
            if (found := _amount(first(holder.get(key)), currency, regions)) is not None:
                return found
    return None


def _amount(value: Any, currency: str | None, regions: Sequence[str]) -> tuple[Decimal, str | None] | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, Decimal)):
        number = Decimal(value)
        return (number, currency) if number.is_finite() and 0 <= number < MOST else None
    if not isinstance(value, str):
        return None
    money = parse_money(value, currency, regions)
    return None if money is None else (money.amount, currency or money.currency)
