"""Pages that change once a day at the same hour: learns the hour, so that a crawl comes right after the change.

Beside the page's Gamma there are 24 hypotheses "changes daily in this hour (UTC) with probability 0.9". What is kept for
each is how much better than the Gamma it predicted what the visits saw, as a logarithm (a Bayes factor).
"""

from collections.abc import Sequence
from math import exp, floor, log
from typing import NamedTuple

HOURS = 24
_CHANGES = 0.9  # probability of the daily change
_KEPT = log(1.0 - _CHANGES)
_BACKGROUND = 0.02  # other changes per day
_FLOOR = 1e-3  # no single observation rules an hour out
_LOG_FLOOR = log(_FLOOR)
_LEAST_CHANCE = 1e-12
_PRIOR = 0.1  # share of pages that change daily
_SURE = 0.7
_LEAST = log(_SURE / (1 - _SURE) * (1 - _PRIOR) / _PRIOR)  # less can never be sure
_WINDOW = 3  # adjacent hours that may share the probability
_WINDOW_SURE = 0.8
_AFTER = 5 / 1440  # a crawl comes five minutes after the window
_STRONGEST = 20.0  # what is kept stays small enough to be unlearnt
_LONGEST_SKIP = 12  # days; after more, a page is stale for certain and nothing is won by waiting

Evidence = Sequence[float]
UNKNOWN: Evidence = (0.0,) * HOURS


def observe(
    evidence: Evidence, same: float, last: float, now: float, *, change: bool, kept: float
) -> list[float]:
    """The evidence after a visit.

    `last` and `now` are days since the epoch, `same` is the probability of no change that the Gamma gave it.
    """
    quiet = -_BACKGROUND * (now - last)
    first, passes = _passes(last, now)
    gained: list[float] = []
    if change:
        general = log(max(1.0 - same, _LEAST_CHANCE))
        for count, hours in passes:
            gained += [log(max(1.0 - exp(_KEPT * count + quiet), _FLOOR)) - general] * hours
    else:
        general = log(max(same, _LEAST_CHANCE))
        for count, hours in passes:
            gained += [max(_KEPT * count + quiet, _LOG_FLOOR) - general] * hours
    gained = gained[HOURS - first :] + gained[: HOURS - first]
    after = [score * kept + gain for score, gain in zip(evidence, gained, strict=True)]
    if max(after) > _STRONGEST or min(after) < -_STRONGEST:
        after = [min(max(score, -_STRONGEST), _STRONGEST) for score in after]
    return after


def _passes(last: float, now: float) -> tuple[int, list[tuple[float, int]]]:
    """How often each hour of the day passed between two moments, in fractions inside it.

    The hour of the first moment, and from there on: a count and the number of hours that share it.
    """
    days = floor(now - last)
    start = (last % 1.0) * HOURS
    end = start + (now - last - days) * HOURS
    first = floor(start)
    hours = floor(end) - first
    before, after = start - first, end - floor(end)
    if hours == 0:  # both in one hour
        return first, [(days + after - before, 1), (days, HOURS - 1)]
    if hours == HOURS:
        return first, [(days + 1.0 - before + after, 1), (days + 1.0, HOURS - 1)]
    return first, [
        (days + 1.0 - before, 1),
        (days + 1.0, hours - 1),
        (days + after, 1),
        (days, HOURS - 1 - hours),
    ]


class Window(NamedTuple):
    """The part of the day, as fractions of it, in which a page changes."""

    start: float
    end: float
    doubt: float = 0.0
    """The probability that the page does not change daily."""


def learnt(evidence: Evidence) -> Window | None:
    """The window if the evidence leaves little doubt, else None."""
    best = max(evidence)
    if best < _LEAST:
        return None
    weights = [exp(score - best) for score in evidence]
    total = sum(weights)
    daily = _PRIOR / HOURS * total
    other = (1.0 - _PRIOR) * exp(-best)
    if daily < _SURE * (daily + other):
        return None
    around = weights + weights[:_WINDOW]
    for width in range(1, _WINDOW + 1):
        for start in range(HOURS):
            if sum(around[start : start + width]) >= _WINDOW_SURE * total:
                return Window(start / HOURS, (start + width) / HOURS, other / (daily + other))
    return None


def next_visit(window: Window, now: float, price: float, longest: float) -> tuple[float, float]:
    """Days until the end of the first window after which a crawl is worth its price (per unit of weight).

    With them, the days from one such visit to the next: a visit off the window leaves less until the first one.
    """
    after = (window.end + _AFTER - now) % 1.0
    stale = stale_before = 0.0
    for days in range(1, _LONGEST_SKIP + 1):
        stale_before += stale
        stale = 1.0 - (1.0 - _CHANGES) ** days
        if days * stale - stale_before >= price:
            return min(after + days - 1, longest), min(float(days), longest)
    return longest, longest
