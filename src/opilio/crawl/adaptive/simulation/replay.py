"""Replays a trace: evenly spaced crawl slots, each given to the page that a rule wants crawled most.

A slot takes the due page that waits longest, else the nearest page that may be crawled early; so every rule makes the
same number of crawls unless it, or a host limit, leaves slots unused. A visit sees one bit: changed or not.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple, Protocol

from opilio.crawl.adaptive.simulation.score import Score, Scorer
from opilio.crawl.adaptive.simulation.trace import Trace

REFIT_DAYS = 1 / 24


class Plan(NamedTuple):
    """When a page should be crawled next, in days."""

    due: float
    earliest: float
    """Not before this, even if a slot has nothing better to do."""
    deadline: float
    """Pages that may be crawled are taken in this order."""


class Period(NamedTuple):
    """What happened since the last refit."""

    slots: int
    idle: int
    """Slots that no due page asked for: unused or given to a page early."""
    waited: float
    """Days that the first page in the queue is overdue."""


class Rule(Protocol):
    """A way to decide when pages are crawled."""

    def first(self, page: int) -> Plan:
        """The first visit of a page."""

    def visited(self, page: int, now: float, gap: float | None, changed: bool) -> Plan:
        """The next visit after one `gap` days after the last; None for the first."""

    def failed(self, page: int, now: float, streak: int) -> Plan:
        """The next visit after a failed one."""

    def refit(self, now: float, period: Period) -> None:
        """Called every hour."""

    def hurried(self, now: float) -> Iterable[int]:
        """Every hour: pages that should be crawled now, whatever was planned for them."""


@dataclass(frozen=True)
class Conditions:
    """What makes a replay harder."""

    failures: float = 0.0
    """Share of crawls that fail."""
    noisy: frozenset[int] = frozenset()
    """Pages that look changed at every visit."""
    host_limits: Mapping[str, float] = field(default_factory=dict)
    """Crawls per day that a host allows."""
    fill_idle: bool = True
    """A slot that nothing else wants takes the nearest page, however early."""
    seed: int = 0


class _Hosts:
    """Token buckets: pages of a host without a token wait in a queue of their own."""

    def __init__(self, of: Sequence[str], limits: Mapping[str, float]) -> None:
        self._of = of
        self._limits = limits
        self._tokens: dict[str, tuple[float, float]] = dict.fromkeys(limits, (1.0, 0.0))
        self._waiting: dict[str, list[tuple[float, int]]] = {host: [] for host in limits}
        self._opens: list[tuple[float, str]] = []

    def take(self, page: int, deadline: float, now: float) -> bool:
        """True if the page's host allows a crawl now; else the page waits until it does."""
        host = self._of[page]
        if host not in self._limits:
            return True
        tokens, at = self._tokens[host]
        per_day = self._limits[host]
        tokens = min(max(1.0, per_day / 24), tokens + (now - at) * per_day)
        if tokens >= 1.0:
            self._tokens[host] = (tokens - 1.0, now)
            return True
        self._tokens[host] = (tokens, now)
        if not self._waiting[host]:
            heapq.heappush(self._opens, (now + (1.0 - tokens) / per_day + 1e-9, host))
        heapq.heappush(self._waiting[host], (deadline, page))
        return False

    def opened(self, now: float) -> list[tuple[float, int]]:
        """The first waiting page of each host that has a token again."""
        free = []
        while self._opens and self._opens[0][0] <= now:
            _, host = heapq.heappop(self._opens)
            free.append(heapq.heappop(self._waiting[host]))
            if self._waiting[host]:
                heapq.heappush(self._opens, (now + 1.0 / self._limits[host], host))
        return free


def replay(
    trace: Trace,
    rule: Rule,
    *,
    budget: float,
    warm_up: float = 0.0,
    until: float | None = None,
    conditions: Conditions | None = None,
) -> Score:
    """Scores a rule at `budget` crawls per page and day, after the warm-up."""
    conditions = conditions or Conditions()
    end = trace.days if until is None else until
    slots_per_day = budget * len(trace.urls)
    scorer = Scorer(trace, warm_up, end)
    random = Random(conditions.seed)
    hosts = _Hosts(trace.hosts(), conditions.host_limits) if conditions.host_limits else None
    streaks: dict[int, int] = {}
    plans = [rule.first(page) for page in range(len(trace.urls))]
    later = [(plan.earliest, page) for page, plan in enumerate(plans)]
    heapq.heapify(later)
    ready: list[tuple[float, int]] = []
    waiting = [False] * len(plans)  # due, or held back by a host's limit
    slots = idle = 0
    next_refit = REFIT_DAYS

    for slot in range(int(end * slots_per_day)):
        now = (slot + 0.5) / slots_per_day
        if now >= next_refit:
            waited = max(0.0, now - plans[ready[0][1]].due) if ready else 0.0
            rule.refit(now, Period(slots, idle, waited))
            for page in rule.hurried(now):
                if not waiting[page]:
                    plans[page] = Plan(now, now, now)
                    heapq.heappush(later, (now, page))
            slots = idle = 0
            next_refit += REFIT_DAYS
        slots += 1
        while later and later[0][0] <= now:
            earliest, page = heapq.heappop(later)
            if earliest == plans[page].earliest and not waiting[page]:  # else it was hurried since
                waiting[page] = True
                heapq.heappush(ready, (plans[page].deadline, page))
        if hosts:
            for entry in hosts.opened(now):
                heapq.heappush(ready, entry)
        page = -1
        while ready:
            deadline, candidate = heapq.heappop(ready)
            if hosts is None or hosts.take(candidate, deadline, now):
                page = candidate
                break
        while page < 0 and conditions.fill_idle and later:
            earliest, nearest = heapq.heappop(later)
            if earliest == plans[nearest].earliest and not waiting[nearest]:
                page = nearest
        if page < 0:
            idle += 1
            continue
        waiting[page] = False
        if plans[page].due > now:
            idle += 1
        if conditions.failures and random.random() < conditions.failures:
            streaks[page] = streaks.get(page, 0) + 1
            plan = rule.failed(page, now, streaks[page])
        else:
            streaks.pop(page, None)
            gap, changed = scorer.visit(page, now)
            plan = rule.visited(page, now, gap, changed or (gap is not None and page in conditions.noisy))
        plans[page] = plan
        heapq.heappush(later, (plan.earliest, page))
    return scorer.score()
