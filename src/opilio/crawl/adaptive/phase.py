"""Pages that change once a day at the same hour: learns the hour, so that a crawl comes right after the change.

Beside the page's Gamma there are 24 hypotheses "changes daily in this hour (UTC) with probability 0.9". What is kept for
each is how much better than the Gamma it predicted what the visits saw, as a logarithm (a Bayes factor).
"""

from collections.abc import Iterator
from itertools import repeat
from math import exp, floor, log
from operator import add, mul
from typing import NamedTuple

from opilio.crawl.adaptive.habit import HOURS, USUAL, Evidence, Habit, weights

_CHANGES = 0.9  # probability of the daily change
_KEPT = log(1.0 - _CHANGES)
_BACKGROUND = 0.02  # other changes per day
_FLOOR = 1e-3  # no single observation rules an hour out
_LOG_FLOOR = log(_FLOOR)
_LEAST_CHANCE = 1e-12
_LEAST = 0.05  # a window that is less likely is not looked at
_WIDEST = 3 * (1.0 + 1e-9)  # hours; a little more, for sums that are rounded
_NEARLY = 0.8  # of the probability of the widest window is enough for a narrower one
_AFTER = 5 / 1440  # a crawl comes five minutes after the window
_STRONGEST = 20.0  # what is kept stays small enough to be unlearnt
_LONGEST_SKIP = 12  # days; after more, a page is stale for certain and nothing is won by waiting

SURE = 0.7
"""A window that is this likely is told to people."""

UNKNOWN: Evidence = (0.0,) * HOURS


def observe(
    evidence: Evidence, same: float, last: float, now: float, *, change: bool, kept: float
) -> list[float]:
    """The evidence after a visit.

    `last` and `now` are days since the epoch, `same` is the probability of no change that the Gamma gave it.
    """
    quiet = -_BACKGROUND * (now - last)
    general = log(max(1.0 - same if change else same, _LEAST_CHANCE))
    first, passes = _passes(last, now)
    gained: list[float] = []
    for count, hours in passes:
        expected = _KEPT * count + quiet  # the logarithm of the probability of no change
        if change:
            chance = 1.0 - exp(expected)
            expected = log(chance) if chance > _FLOOR else _LOG_FLOOR
        elif expected < _LOG_FLOOR:
            expected = _LOG_FLOOR
        gained += [expected - general] * hours
    gained = gained[-first:] + gained[:-first]
    # Maps of C functions: half the time of loops, here and in `likely`, where a submit spends most of what a rule takes.
    after = gained if evidence is UNKNOWN else list(map(add, map(mul, evidence, repeat(kept)), gained))
    if max(after) > _STRONGEST or min(after) < -_STRONGEST:
        most, least = _STRONGEST, -_STRONGEST  # a call of max for each would take three times as long
        return [most if score > most else least if score < least else score for score in after]  # noqa: FURB136
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
    """The part of the day, as fractions of it, in which a page changes if it changes daily."""

    start: float
    end: float
    chance: float = 1.0
    """The probability that the page changes daily in this window."""


def likely(evidence: Evidence, assumed: Habit = USUAL) -> Window | None:
    """The likeliest window of up to three hours, the narrowest that is nearly as likely; None if all are unlikely."""
    if _unlikely(evidence, assumed):
        return None
    one = weights(evidence, assumed)
    total = sum(one) + assumed.other
    if total - assumed.other < _LEAST * total:
        return None
    two = list(map(add, one, one[1:] + one[:1]))
    three = list(map(add, two, one[2:] + one[:2]))
    enough = max(_NEARLY * max(three), _LEAST * total)
    for width, sums in enumerate((one, two, three), 1):
        best = max(sums)
        if best >= enough:
            start = sums.index(best)
            return Window(start / HOURS, (start + width) / HOURS, best / total)
    return None


def _unlikely(evidence: Evidence, assumed: Habit) -> bool:
    """Whether no window can be likely enough, without a look at each hour: so it is with most pages.

    Three hours are at most three times the strongest evidence for the likeliest hour.
    """
    most = _WIDEST * exp(max(evidence)) * assumed.likeliest
    if most < _LEAST * assumed.other:
        return True
    return most < _LEAST * (assumed.other + exp(min(evidence)) * assumed.daily)


def until_after(window: Window, now: float) -> float:
    """Days until a crawl finds what the next window brings."""
    return (window.end + _AFTER - now) % 1.0


def _worth() -> Iterator[float]:
    stale = stale_before = 0.0
    for days in range(1, _LONGEST_SKIP + 1):
        stale_before += stale
        stale = 1.0 - (1.0 - _CHANGES) ** days
        yield days * stale - stale_before


WORTH = tuple(_worth())
"""Days of freshness that a crawl after the window wins, for certain daily pages: after one day, two, and so on."""
