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
from opilio.crawl.adaptive.habit import USUAL, Evidence, Habit
from opilio.crawl.adaptive.value import interval, value

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
    hours: Evidence | None = None
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
    """Set when the visit follows the hour of a daily change."""


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
    hours, changed = learnt.hours, visit.changed
    if hours is not None and gap > SHORTEST_GAP:
        hours = phase.observe(hours, same, visit.last, visit.now, change=changed, kept=kept)
    evidence = observe(learnt.evidence, prior, gap, change=changed, age=age, kept=kept)
    return Learnt(evidence, hours, same - (not changed))


def plan(
    learnt: Learnt,
    prior: Rate,
    terms: Terms,
    now: float,
    chance: tuple[float, float],
    *,
    changed: bool = False,
    habit: Habit = USUAL,
) -> Plan:
    """The next visit; `chance` is two random numbers between 0 and 1."""
    rate = posterior(learnt.evidence, prior)
    window = None if learnt.hours is None else phase.likely(learnt.hours, habit)
    if window is not None:
        days, wait = _beside_window(window, rate, terms, phase.until_after(window, now))
        if wait is not None:
            if chance[1] < _PROBE:
                wait *= chance[0]
            wait = max(wait, terms.shortest)
            return Plan(wait, days, wait, window)
    else:
        days = interval(rate, terms.price / terms.weight, terms.shortest, terms.longest)
    wait = days * (1.0 - _JITTER + 2.0 * _JITTER * chance[0])
    if changed and learnt.hours is not None and chance[1] < _PROBE:
        # A page that changed at every visit may change daily or hourly: only a sooner visit can tell.
        wait = days * (0.2 + 0.3 * chance[0])
    wait = max(wait, terms.shortest)
    return Plan(wait, days, EARLY * wait)


def _beside_window(
    window: phase.Window, rate: Rate, terms: Terms, after: float
) -> tuple[float, float | None]:
    """The interval that is worth its price if the page may change daily, and the wait if the visit follows the window.

    The value is that of both cases by their probability. A daily page asks for a crawl per cycle of some days, however
    little is left until its window.
    """
    price = terms.price / terms.weight
    daily, other = window.chance, max(1.0 - window.chance, _LEAST_DOUBT)
    won = 0.0
    for days, worth in enumerate(phase.WORTH, 1):
        wait = after + days - 1
        usual = other * value(rate, wait)
        if wait >= terms.longest or usual + won >= price:
            break  # worth a visit before this window
        won = daily * worth
        if usual + won >= price:
            return float(days), wait
    return interval(rate, (price - won) / other, terms.shortest, terms.longest), None


def retry_wait(streak: int, last_interval: float, chance: float) -> float:
    """Days until a failed page is tried again: doubling from 15 minutes to half its interval or six hours, ± a fifth."""
    longest = min(max(1 / 96, last_interval / 2), 0.25)
    return min(exp2(min(streak, 20)) / 96, longest) * (0.8 + 0.4 * chance)
