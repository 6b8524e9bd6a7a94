"""The adaptive rule: what a visit teaches, and when the next one is worth its price. Times are days since the epoch."""

from math import exp2

import msgspec

from opilio.crawl.adaptive import phase
from opilio.crawl.adaptive.change_rate import (
    NOTHING,
    SHORTEST_GAP,
    Rate,
    chance_of_no_change,
    observe,
    posterior,
)
from opilio.crawl.adaptive.value import interval

HALF_LIFE = 90.0
"""Days after which an observation counts half."""
EARLY = 0.7
"""Share of its interval after which a page may be crawled early by idle bots."""
_JITTER = 0.05
_LEAST_DOUBT = 0.01  # a daily page may change at another time, too, however sure its hour is
_PROBE = 0.1  # share of visits that come at another time of day, or sooner after a change, only to learn


class Learnt(msgspec.Struct, frozen=True):
    """What was learnt about a page, on top of its prior."""

    evidence: Rate = NOTHING
    hours: phase.Evidence | None = None
    """None: the daily phase is not learnt."""
    surprise: float | None = None
    """What the last visit saw (1 changed, 0 not) minus what was expected."""


class Visit(msgspec.Struct, frozen=True, gc=False):
    """A successful visit that could tell whether the page had changed."""

    last: float
    now: float
    changed: bool
    changed_at: float | None = None
    """When it changed, if the page or the bot can say so."""


class Terms(msgspec.Struct, frozen=True, gc=False):
    """What decides the next visit besides the rate of change."""

    weight: float
    price: float
    """Of a crawl, times its cost."""
    shortest: float
    longest: float


class Plan(msgspec.Struct, frozen=True):
    """The next visit."""

    days: float
    """From now."""
    interval: float
    """The interval that is worth its price, without jitter; what the demand of a page is counted by."""
    early: float
    """Days from now after which idle bots may take it."""
    window: phase.Window | None = None
    """Set when the visit follows a daily change."""


def weight_of(priority: float) -> float:
    """Priority 50 weighs 1; every 15 points double it."""
    return exp2((priority - 50.0) / 15.0)


def kept_after(gap: float) -> float:
    """How much the evidence of before counts `gap` days later."""
    return exp2(-gap / HALF_LIFE)


def learn(learnt: Learnt, prior: Rate, visit: Visit) -> Learnt:
    """What is known after a visit. A visit that is not later than the last one teaches nothing."""
    gap = visit.now - visit.last
    if gap <= 0.0:
        return learnt
    age = None if visit.changed_at is None else visit.now - visit.changed_at
    if age is not None and not 0.0 <= age <= gap:
        age = None  # a stamp from outside the gap says nothing about this change
    kept = kept_after(gap)
    same = chance_of_no_change(posterior(learnt.evidence, prior), gap)
    hours = learnt.hours
    if hours is not None and gap > SHORTEST_GAP:
        hours = phase.observe(hours, same, visit.last, visit.now, change=visit.changed, kept=kept)
    evidence = observe(learnt.evidence, prior, gap, change=visit.changed, age=age, kept=kept)
    return Learnt(evidence, hours, same - (not visit.changed))


def plan(
    learnt: Learnt,
    prior: Rate,
    terms: Terms,
    now: float,
    chance: tuple[float, float],
    *,
    changed: bool = False,
) -> Plan:
    """The next visit; `chance` is two random numbers between 0 and 1."""
    price = terms.price / terms.weight
    window = phase.learnt(learnt.hours) if learnt.hours is not None else None
    if window is not None:
        usual = interval(
            posterior(learnt.evidence, prior),
            price / max(window.doubt, _LEAST_DOUBT),
            terms.shortest,
            terms.longest,
        )
        return _daily(window, terms, price, now, chance, usual)
    days = interval(posterior(learnt.evidence, prior), price, terms.shortest, terms.longest)
    wait = days * (1.0 - _JITTER + 2.0 * _JITTER * chance[0])
    if changed and learnt.hours is not None and chance[1] < _PROBE:
        # A page that changed at every visit may change daily or hourly: only a sooner visit can tell.
        wait = days * (0.2 + 0.3 * chance[0])
    wait = max(wait, terms.shortest)
    return Plan(wait, days, EARLY * wait)


def _daily(
    window: phase.Window,
    terms: Terms,
    price: float,
    now: float,
    chance: tuple[float, float],
    usual: float,
) -> Plan:
    """After the daily change, or sooner where the doubt about it alone is worth a visit."""
    wait, cycle = phase.next_visit(window, now, price, terms.longest)
    wait, cycle = max(min(wait, usual), terms.shortest), max(min(cycle, usual), terms.shortest)
    if chance[1] < _PROBE:
        wait = max(wait * chance[0], terms.shortest)
    return Plan(wait, cycle, wait, window)


def retry_wait(streak: int, last_interval: float, chance: float) -> float:
    """Days until a failed page is tried again: doubling from 15 minutes to half its interval or six hours, ± a fifth."""
    longest = min(max(1 / 96, last_interval / 2), 0.25)
    return min(exp2(min(streak, 20)) / 96, longest) * (0.8 + 0.4 * chance)
