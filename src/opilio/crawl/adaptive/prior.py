"""What is assumed about a page before it was observed: from its base frequency at first, from its siblings later."""

from functools import lru_cache
from math import log
from typing import NamedTuple

from opilio.crawl.adaptive.change_rate import Rate, digamma

_SHAPE = 0.3  # below 1: an unknown page is crawled some day whatever the price
_LEAST_SHAPE, _MOST_SHAPE = 0.15, 0.8
_SHORTEST_DAYS, _LONGEST_DAYS = 0.02, 3650.0
_OWN_PAGES = 30  # a group's pages count as much as this many pages of all groups


@lru_cache(maxsize=256)  # few intervals are chosen
def from_base(interval_days: float) -> Rate:
    """The time scale is the interval that the user chose: a fixed one loses on slow sites."""
    return Rate(_SHAPE, min(max(interval_days, _SHORTEST_DAYS), _LONGEST_DAYS))


class Summary(NamedTuple):
    """Averages over the posteriors of observed pages; sums of these are one aggregate in SQL."""

    pages: float
    mean: float
    """Of the expected rate."""
    mean_log: float
    """Of the expected logarithm of the rate."""


def blend(group: Summary, everyone: Summary) -> Summary:
    """A small group leans on all pages."""
    own = group.pages / (group.pages + _OWN_PAGES)
    return Summary(
        group.pages,
        own * group.mean + (1 - own) * everyone.mean,
        own * group.mean_log + (1 - own) * everyone.mean_log,
    )


def fit(summary: Summary) -> Rate:
    """One step of expectation-maximisation: the Gamma with the same mean and mean logarithm."""
    gap = log(summary.mean) - summary.mean_log
    low, high = _LEAST_SHAPE, _MOST_SHAPE
    for _ in range(30):
        middle = (low + high) / 2
        if log(middle) - digamma(middle) > gap:
            low = middle
        else:
            high = middle
    shape = (low + high) / 2
    return Rate(shape, min(max(shape / summary.mean, _SHORTEST_DAYS), _LONGEST_DAYS))
