"""The product's rule in a replay: the same functions that decide when a result is submitted."""

from collections.abc import Mapping
from random import Random

from opilio.crawl.adaptive import phase, prior, rule
from opilio.crawl.adaptive.change_rate import NOTHING, Rate, expected_log, posterior
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
        self._learnt = [Learnt(NOTHING, phase.UNKNOWN if daily_phase else None)] * self._pages
        self._intervals = [1.0 / budget] * self._pages
        self._plans = [0.0] * self._pages
        self._demand = dict.fromkeys(self._hosts, 0.0)
        self._never_visited = self._pages
        self._first = first_by_weight(trace)
        self._market = Market(first_price(self._slots, self._demand_at))
        self._next_night = 1.0

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
        price = self._market.of(host)
        terms = Terms(self._trace.weights[page], price, SHORTEST, self._longest)
        plan = rule.plan(
            self._learnt[page], own, terms, now, (self._chance(), self._chance()), changed=changed
        )
        self._intervals[page] = plan.interval
        planned = price**ELASTICITY / plan.interval
        self._demand[host] += planned - self._plans[page]
        self._plans[page] = planned
        slack = 0.0 if plan.window else 0.1 * plan.days
        return Plan(now + plan.days, now + plan.early, now + plan.days + slack)

    def failed(self, page: int, now: float, streak: int) -> Plan:
        due = now + rule.retry_wait(streak, self._intervals[page], self._chance())
        return Plan(due, due, due)

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
