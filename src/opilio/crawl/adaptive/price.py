"""The price of a crawl: one number that keeps the demand of all adaptive pages at the budget.

A page is crawled when weight times value reaches price times cost. Raising the price stretches every interval; the price
takes effect at each page's next result, so no row is rewritten.
"""

from collections.abc import Callable, Iterable, Mapping
from math import exp, log
from typing import NamedTuple

ELASTICITY = 0.9
"""Demand falls as price^-0.9 around the operating point (measured: 0.7 to 1.2)."""
_STEP = 0.3  # of the gap between demand and budget, per hour
_HOST_SHARE = 0.97  # of a host's limit is what its own price aims at
_NEVER_VISITED = 0.05
_BACKLOG = 0.04  # days of work that may wait: a buffer against idle bots
_LEAST_DELTA, _MOST_DELTA = -0.10, 0.20


class Market(NamedTuple):
    """A budget's price, its correction, and the prices of hosts whose limit binds."""

    price: float
    delta: float = 0.0
    hosts: Mapping[str, float] = {}

    def of(self, host: str) -> float:
        return max(self.price, self.hosts.get(host, 0.0))


class Demand(NamedTuple):
    """What one aggregate over the stored plans says, and how the last period went."""

    plans: Mapping[str, float]
    """Per host: the sum of price_used^0.9 / interval, crawls per day at a price of 1."""
    pages: int
    never_visited: int
    idle_share: float = 0.0
    """The part of the budget that no due page asked for."""
    backlog_days: float = 0.0
    """Due pages that wait, in days of budget."""


def refit(
    market: Market,
    demand: Demand,
    budget: float,
    *,
    limits: Mapping[str, float] | None = None,
    hours: float = 1.0,
    idle_target: float = 0.0,
) -> Market:
    """The next price, from the one before. Many new pages hold it still: they have no plan yet."""
    if not demand.pages or demand.never_visited > _NEVER_VISITED * demand.pages:
        return market
    limits = limits or {}
    at = {host: plan / market.of(host) ** ELASTICITY for host, plan in demand.plans.items()}
    wanted = sum(min(rate, limits.get(host, rate)) for host, rate in at.items())
    moved = 0.05 * (demand.idle_share - idle_target) - 0.05 * max(0.0, demand.backlog_days - _BACKLOG)
    delta = min(max(market.delta + moved * hours, _LEAST_DELTA), _MOST_DELTA)
    price = market.price * _step(wanted / (budget * (1.0 + delta)), hours)
    hosts = {
        host: raised
        for host, limit in limits.items()
        if (raised := _host_price(market, at.get(host, 0.0), limit, host, hours)) > price
    }
    return Market(price, delta, hosts)


def _host_price(market: Market, rate: float, limit: float, host: str, hours: float) -> float:
    """A host whose limit binds gets a price of its own, so that its pages share what it allows by value."""
    own = market.of(host)
    if rate <= limit and own <= 1.02 * market.price:
        return 0.0
    return own * _step(rate / (_HOST_SHARE * limit), hours)


def _step(ratio: float, hours: float) -> float:
    return min(max(ratio ** (_STEP * min(hours, 2.0)), 0.6), 1.6) if ratio > 0.0 else 0.6


def first_price(budget: float, demand_at: Callable[[float], float]) -> float:
    """The price at which `demand_at` meets the budget; demand falls with the price."""
    low, high = log(1e-12), log(1e12)
    for _ in range(60):
        middle = (low + high) / 2
        if demand_at(exp(middle)) > budget:
            low = middle
        else:
            high = middle
    return exp((low + high) / 2)


def histogram(weights: Iterable[float], per_decade: int = 8) -> list[tuple[float, int]]:
    """Weights rounded on a logarithmic scale and counted, so that a first price needs no pass over every page."""
    counts: dict[int, int] = {}
    for weight in weights:
        bucket = round(log(weight) * per_decade / 2.302585092994046)
        counts[bucket] = counts.get(bucket, 0) + 1
    return [(exp(bucket * 2.302585092994046 / per_decade), count) for bucket, count in sorted(counts.items())]
