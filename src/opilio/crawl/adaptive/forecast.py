"""What an adaptive schedule is expected to give beside a fixed one with the same crawls. No I/O."""

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

import msgspec

from opilio.crawl.adaptive.change_rate import Rate, quantile
from opilio.crawl.adaptive.price import first_price
from opilio.crawl.adaptive.value import freshness, interval


class KnownPage(NamedTuple):
    """A page and what is known about it. Intervals are in days."""

    url: str
    weight: float
    rate: Rate
    base: float
    shortest: float
    longest: float
    planned: float | None = None
    """The interval that it has now, if it is adaptive already."""


class PageForecast(msgspec.Struct, frozen=True):
    """How one page would be crawled."""

    url: str
    base_days: float
    adaptive_days: float
    why: str


class Forecast(msgspec.Struct, frozen=True):
    """Expected figures; freshness is weighted by importance."""

    pages: int
    crawls_per_day: float
    freshness_fixed: float
    freshness_adaptive: float
    crawls_saved_per_day: float
    """Crawls that a fixed schedule would need on top for the same freshness."""
    less: list[PageForecast]
    more: list[PageForecast]


def describe(rate: Rate, days: float, longest: float) -> str:
    """One sentence for people: how often it changes, and what that is worth."""
    low, high = 1 / quantile(rate, 0.95), 1 / max(quantile(rate, 0.05), 1e-9)
    changes = f"changes about every {_span(1 / rate.mean)} ({_span(low)} to {_span(high)})"
    if days >= longest * 0.999:
        if rate.mean * longest < 1.0:
            return f"{changes}; visited at its longest interval, {_span(days)}"
        return (
            f"{changes}, too often for a copy to stay fresh; visited at its longest interval, {_span(days)}"
        )
    return f"{changes}; worth a visit every {_span(days)} at today's price"


def _span(days: float) -> str:
    for size, unit in ((365.0, "years"), (1.0, "days"), (1 / 24, "h"), (1 / 1440, "min")):
        if days >= size * (2 if unit == "years" else 1) or unit == "min":
            count = days / size
            if count > 1000:
                return "never" if unit == "years" else f"{count:.0f} {unit}"
            return f"{count:.2g} {unit}" if count < 10 else f"{count:.0f} {unit}"
    raise AssertionError("minutes end the list")


def forecast(pages: Sequence[KnownPage], budget: float | None = None, most: int = 10) -> Forecast:
    """Without a budget, what the base frequencies cost. Pages that are adaptive already keep their plan."""
    base_crawls = sum(1 / page.base for page in pages)
    crawls = budget or base_crawls
    days = _intervals(pages, crawls)
    adaptive = _weighted(pages, days)
    fixed = _weighted(pages, [page.base * base_crawls / crawls for page in pages])
    changed = sorted(zip(pages, days, strict=True), key=lambda pair: pair[1] / pair[0].base)
    pages_by_ratio = [
        PageForecast(page.url, page.base, planned, describe(page.rate, planned, page.longest))
        for page, planned in changed
    ]
    return Forecast(
        pages=len(pages),
        crawls_per_day=sum(1 / planned for planned in days),
        freshness_fixed=fixed,
        freshness_adaptive=adaptive,
        crawls_saved_per_day=_saved(pages, base_crawls, crawls, adaptive),
        less=[page for page in reversed(pages_by_ratio) if page.adaptive_days > page.base_days * 1.1][:most],
        more=[page for page in pages_by_ratio if page.adaptive_days < page.base_days / 1.1][:most],
    )


def _intervals(pages: Sequence[KnownPage], crawls: float) -> list[float]:
    if all(page.planned for page in pages):
        return [page.planned or page.base for page in pages]

    def at(price: float) -> list[float]:
        return [interval(p.rate, price / p.weight, p.shortest, p.longest) for p in pages]

    return at(first_price(crawls, lambda price: sum(1 / days for days in at(price))))


def _weighted(pages: Sequence[KnownPage], days: Sequence[float]) -> float:
    total = sum(page.weight for page in pages)
    fresh = (page.weight * freshness(page.rate, gap) for page, gap in zip(pages, days, strict=True))
    return sum(fresh) / total


def _saved(pages: Sequence[KnownPage], base_crawls: float, crawls: float, wanted: float) -> float:
    """Bisects for the number of crawls at which a fixed schedule is as fresh."""
    low, high = crawls, crawls * 100
    for _ in range(20):
        middle = sqrt(low * high)
        if _weighted(pages, [page.base * base_crawls / middle for page in pages]) < wanted:
            low = middle
        else:
            high = middle
    return low - crawls
