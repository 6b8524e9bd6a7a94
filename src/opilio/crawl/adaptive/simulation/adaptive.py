"""The product's rule in a replay: the same functions that decide when a result is submitted."""

from collections.abc import Mapping, Sequence
from random import Random

from opilio.crawl.adaptive import phase, prior, rule, siblings
from opilio.crawl.adaptive.change_rate import NOTHING, Rate, expected_log, posterior
from opilio.crawl.adaptive.habit import USUAL, Habit, Pages, fit
from opilio.crawl.adaptive.price import ELASTICITY, Demand, Market, first_price, histogram, refit
from opilio.crawl.adaptive.prior import Summary
from opilio.crawl.adaptive.rule import Learnt, Terms, Visit
from opilio.crawl.adaptive.simulation.peers import first_by_weight
from opilio.crawl.adaptive.simulation.replay import Period, Plan
from opilio.crawl.adaptive.simulation.trace import Trace
from opilio.crawl.adaptive.value import interval

SHORTEST = 0.25 / 24
_IDLE_TARGET = 0.03  # a few early crawls show that the price is not too low
_OBSERVED_PAGES = 50  # a prior is fitted to no fewer


def longest_interval(mean_interval: float) -> float:
    """The default bound: a month, or six mean intervals, so that it uses less than a sixth of the budget."""
    return max(30.0, 6.0 * mean_interval)


class Adaptive:
    """Prices by the hour, priors by night, everything else at each result."""

    def __init__(
        self,
        trace: Trace,
        budget: float,
        *,
        daily_phase: bool = False,
        limits: Mapping[str, float] | None = None,
        fill_idle: bool = True,
        together: bool = True,
        seed: int = 0,
    ) -> None:
        self._trace, self._hosts = trace, trace.hosts()
        self._pages = len(trace.urls)
        self._slots = budget * self._pages
        self._longest = longest_interval(1.0 / budget)
        self._limits = limits or {}
        self._idle_target = _IDLE_TARGET if fill_idle else 0.0
        self._chance = Random(seed).random
        self._prior = prior.from_base(1.0 / budget)
        self._host_priors: dict[str, Rate] = {}
        self._habit = USUAL
        self._host_habits: dict[str, Habit] = {}
        self._learnt = [Learnt(NOTHING, phase.UNKNOWN if daily_phase else None)] * self._pages
        self._intervals = [1.0 / budget] * self._pages
        self._plans = [0.0] * self._pages
        self._demand = dict.fromkeys(self._hosts, 0.0)
        self._never_visited = self._pages
        self._first = first_by_weight(trace)
        self._market = Market(first_price(self._slots, self._demand_at))
        self._next_night = 1.0
        self._folders = _Folders(trace) if together else None

    def _demand_at(self, price: float) -> float:
        return sum(
            count / interval(self._prior, price / weight, SHORTEST, self._longest)
            for weight, count in histogram(self._trace.weights)
        )

    def first(self, page: int) -> Plan:
        return self._first[page]

    def visited(self, page: int, now: float, gap: float | None, changed: bool) -> Plan:
        host = self._hosts[page]
        own = self._host_priors.get(host, self._prior)
        if gap is None:
            self._never_visited -= 1
        else:
            self._learnt[page] = rule.learn(self._learnt[page], own, Visit(now - gap, now, changed))
            if self._folders:
                self._folders.seen(page, self._learnt[page].surprise, gap, changed)
        price = self._market.of(host)
        terms = Terms(self._trace.weights[page], price, SHORTEST, self._longest)
        plan = rule.plan(
            self._learnt[page],
            own,
            terms,
            now,
            (self._chance(), self._chance()),
            changed=changed,
            habit=self._host_habits.get(host, self._habit),
        )
        self._intervals[page] = plan.interval
        planned = price**ELASTICITY / plan.interval
        self._demand[host] += planned - self._plans[page]
        self._plans[page] = planned
        if self._folders:
            self._folders.planned(
                page, now, plan.days, plan.interval, posterior(self._learnt[page].evidence, own)
            )
        slack = 0.0 if plan.window else 0.1 * plan.days
        return Plan(now + plan.days, now + plan.early, now + plan.days + slack)

    def failed(self, page: int, now: float, streak: int) -> Plan:
        due = now + rule.retry_wait(streak, self._intervals[page], self._chance())
        return Plan(due, due, due)

    def hurried(self, now: float) -> Sequence[int]:
        return self._folders.hurried(now) if self._folders else ()

    def refit(self, now: float, period: Period) -> None:
        demand = Demand(
            plans=self._demand,
            pages=self._pages,
            never_visited=self._never_visited,
            idle_share=period.idle / max(1, period.slots),
            backlog_days=period.waited,
        )
        self._market = refit(
            self._market, demand, self._slots, limits=self._limits, idle_target=self._idle_target
        )
        if now >= self._next_night:
            self._refit_priors()
            self._refit_habits()
            # Every night at first; later a week changes little, and long traces are replayed in minutes.
            self._next_night += 1.0 if now < 30.0 else 7.0

    def _refit_priors(self) -> None:
        sums: dict[str, list[float]] = {}
        for page, learnt in enumerate(self._learnt):
            if learnt.evidence is NOTHING:
                continue
            host = self._hosts[page]
            rate = posterior(learnt.evidence, self._host_priors.get(host, self._prior))
            group = sums.setdefault(host, [0.0, 0.0, 0.0])
            group[0] += 1
            group[1] += rate.mean
            group[2] += expected_log(rate)
        total = [sum(group[i] for group in sums.values()) for i in range(3)]
        if total[0] < _OBSERVED_PAGES:
            return
        everyone = Summary(total[0], total[1] / total[0], total[2] / total[0])
        self._prior = prior.fit(everyone)
        self._host_priors = {
            host: prior.fit(prior.blend(Summary(count, mean / count, mean_log / count), everyone))
            for host, (count, mean, mean_log) in sums.items()
        }

    def _refit_habits(self) -> None:
        seen: dict[str, Pages] = {}
        for learnt, host in zip(self._learnt, self._hosts, strict=True):
            if learnt.hours is not None and learnt.evidence is not NOTHING:
                seen.setdefault(host, Pages()).add(learnt.hours, self._host_habits.get(host, self._habit))
        self._habit, self._host_habits = fit(seen)


class _Folders:
    """Pages whose changes may come together."""

    def __init__(self, trace: Trace) -> None:
        self._folder = [siblings.folder(url) for url in trace.urls]
        self._hosts = trace.hosts()
        self._pages: dict[str, list[int]] = {}
        for page, name in enumerate(self._folder):
            self._pages.setdefault(name, []).append(page)
        self._known = {
            name: pages for name, pages in self._pages.items() if 1 < len(pages) <= siblings.MOST_PAGES
        }
        self._siblings: dict[int, siblings.Sibling] = {}
        self._seen: dict[int, tuple[float | None, float]] = {}
        self._together = dict.fromkeys(self._hosts, siblings.Together())
        self._changed: set[str] = set()
        self._next_night = 1.0

    def seen(self, page: int, surprise: float | None, gap: float, changed: bool) -> None:
        self._seen[page] = (surprise, gap)
        if changed and self._folder[page] in self._known:
            self._changed.add(self._folder[page])

    def planned(self, page: int, now: float, wait: float, interval: float, rate: Rate) -> None:
        surprise, gap = self._seen.get(page, (None, 0.0))
        self._siblings[page] = siblings.Sibling(now, now + wait, interval, rate, surprise, gap)

    def hurried(self, now: float) -> list[int]:
        if now >= self._next_night:
            self._learn(now)
            self._next_night += 1.0
        hurried = []
        for name in self._changed:
            known = self._together[self._hosts[self._known[name][0]]]
            if not known.correlation:
                continue
            pages = [page for page in self._known[name] if page in self._siblings]
            found = [self._siblings[page] for page in pages]
            for index in siblings.hurried(found, known.correlation, known.mean, now):
                page = pages[index]
                hurried.append(page)
                self._siblings[page] = self._siblings[page]._replace(due=now)
        self._changed.clear()
        return hurried

    def _learn(self, now: float) -> None:
        by_host: dict[str, list[list[float]]] = {}
        for pages in self._known.values():
            found = [self._siblings[page] for page in pages if page in self._siblings]
            recent = [
                page.surprise
                for page in found
                if page.surprise is not None and now - page.last < siblings.RECENT
            ]
            if recent:
                by_host.setdefault(self._hosts[pages[0]], []).append(recent)
        for host, folders in by_host.items():
            known = self._together[host]
            self._together[host] = siblings.learn(known, siblings.together(folders, known.mean))
