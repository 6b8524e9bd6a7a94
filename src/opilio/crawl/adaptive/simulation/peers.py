"""Rules of other crawlers, and two simple ones, as published in their code."""

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from random import Random

from opilio.crawl.adaptive.simulation.replay import Period, Plan
from opilio.crawl.adaptive.simulation.trace import Trace
from opilio.crawl.adaptive.value import known_interval

EARLY = 0.7
"""A page may be crawled early once this share of its interval has passed."""
_HOUR = 1 / 24


def spread(now: float, interval: float, early: float = EARLY) -> Plan:
    due = now + interval
    return Plan(due, now + early * interval, due)


def first_by_weight(trace: Trace) -> list[Plan]:
    """Never-visited pages come first, the most important before the others."""
    order = sorted(range(len(trace.urls)), key=lambda page: -trace.weights[page])
    plans = [Plan(0.0, 0.0, 0.0)] * len(order)
    for rank, page in enumerate(order):
        plans[page] = Plan(0.0, 0.0, rank / len(order) - 1.0)
    return plans


class _Peer:
    """A rule that never looks at the budget."""

    def __init__(self, trace: Trace, budget: float, early: float = EARLY, seed: int = 1) -> None:
        self._trace, self._budget, self._early = trace, budget, early
        random = Random(seed)
        self._order = [random.random() - 1.0 for _ in trace.urls]

    def first(self, page: int) -> Plan:
        """In no particular order."""
        return Plan(0.0, 0.0, self._order[page])

    def failed(self, page: int, now: float, streak: int) -> Plan:
        del page, streak
        return Plan(now + 1.0, now + 1.0, now + 1.0)

    def refit(self, now: float, period: Period) -> None:
        """There is no price to refit."""

    def hurried(self, now: float) -> Sequence[int]:
        del now
        return ()


class Uniform(_Peer):
    """Every page equally often (Frontera, changedetection.io)."""

    def visited(self, page: int, now: float, gap: float | None, changed: bool) -> Plan:
        del page, gap, changed
        return spread(now, 1.0 / self._budget, self._early)


class Priority(_Peer):
    """As often as a page is important: the strongest of the simple rules."""

    def __init__(self, trace: Trace, budget: float, early: float = EARLY) -> None:
        super().__init__(trace, budget, early)
        total = sum(trace.weights) / (budget * len(trace.weights))
        self._intervals = [total / weight for weight in trace.weights]
        self._first = first_by_weight(trace)

    def first(self, page: int) -> Plan:
        return self._first[page]

    def visited(self, page: int, now: float, gap: float | None, changed: bool) -> Plan:
        del gap, changed
        return spread(now, self._intervals[page], self._early)


class StormCrawler(_Peer):
    """AdaptiveScheduler with its shipped defaults: halfway to the minimum when changed, 1.5 times when not."""

    shortest, longest, start = _HOUR, 14.0, 1.0

    def __init__(self, trace: Trace, budget: float, early: float = EARLY) -> None:
        super().__init__(trace, budget, early)
        self._intervals = [self.start] * len(trace.urls)

    def visited(self, page: int, now: float, gap: float | None, changed: bool) -> Plan:
        interval = self._intervals[page]
        if gap is not None:
            interval = (interval + self.shortest) / 2 if changed else min(interval * 1.5, self.longest)
        self._intervals[page] = interval
        return spread(now, interval, self._early)

    def failed(self, page: int, now: float, streak: int) -> Plan:
        """Any failure deletes the learnt interval."""
        self._intervals[page] = self.start
        return super().failed(page, now, streak)


class Nutch(_Peer):
    """AdaptiveFetchSchedule with its shipped rates; it starts at the mean interval, since 30 days leave most slots unused."""

    shortest, longest, shift = 60 / 86400, 365.0, 0.3

    def __init__(self, trace: Trace, budget: float, early: float = EARLY) -> None:
        super().__init__(trace, budget, early)
        self._intervals = [1.0 / budget] * len(trace.urls)
        self._modified: list[float | None] = [None] * len(trace.urls)

    def visited(self, page: int, now: float, gap: float | None, changed: bool) -> Plan:
        interval = self._intervals[page]
        if gap is not None:
            interval *= 0.8 if changed else 1.4
        if changed or gap is None:
            self._modified[page] = now
        since = now - (self._modified[page] or now)
        interval = min(max(interval, since, self.shortest), self.longest)
        self._intervals[page] = interval
        return spread(now, max(interval - self.shift * since, self.shortest), self._early)


class Oracle(_Peer):
    """Knows each page's true rate of change and solves for the best intervals at the budget."""

    def __init__(
        self,
        trace: Trace,
        budget: float,
        rates: Sequence[float],
        early: float = EARLY,
        limits: Mapping[str, float] | None = None,
        redrawn: tuple[float, Sequence[float]] | None = None,
    ) -> None:
        super().__init__(trace, budget, early)
        self._limits = limits or {}
        self._intervals = self._solve(rates)
        self._first = first_by_weight(trace)
        self._redrawn = redrawn

    def first(self, page: int) -> Plan:
        return self._first[page]

    def visited(self, page: int, now: float, gap: float | None, changed: bool) -> Plan:
        del gap, changed
        return spread(now, min(self._intervals[page], 1e6), self._early)

    def refit(self, now: float, period: Period) -> None:
        del period
        if self._redrawn and now >= self._redrawn[0]:
            self._intervals = self._solve(self._redrawn[1])
            self._redrawn = None

    def _solve(self, rates: Sequence[float]) -> list[float]:
        weights, hosts = self._trace.weights, self._trace.hosts()
        slots = self._budget * len(weights)
        limited: dict[str, list[int]] = {host: [] for host in self._limits}
        free: list[int] = []
        for page, host in enumerate(hosts):
            limited.get(host, free).append(page)

        def demand(pages: list[int], price: float) -> float:
            return sum(1.0 / known_interval(rates[page], price / weights[page]) for page in pages)

        def host_price(host: str, price: float) -> float:
            if demand(limited[host], price) <= self._limits[host]:
                return price
            return _bisect(lambda p: demand(limited[host], p) > self._limits[host], price, 1e9)

        def wanted(price: float) -> float:
            return demand(free, price) + sum(
                min(demand(pages, price), self._limits[host]) for host, pages in limited.items()
            )

        price = _bisect(lambda p: wanted(p) > slots, 1e-9, 1e9)
        at = {host: host_price(host, price) for host in limited}
        return [
            known_interval(rate, at.get(host, price) / weight)
            for rate, host, weight in zip(rates, hosts, weights, strict=True)
        ]


def _bisect(too_low: Callable[[float], bool], low: float, high: float) -> float:
    for _ in range(40):
        middle = sqrt(low * high)
        if too_low(middle):
            low = middle
        else:
            high = middle
    return sqrt(low * high)
