"""How likely the pages of a host change daily, and in which hour: what is assumed of a page before its own visits tell.

Fitted every night: the average of what is known about the pages themselves, which is one step of
expectation-maximisation. A host leans on all pages, and these on a fixed assumption.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp
from operator import mul
from typing import TypeVar

HOURS = 24
_DAILY = 0.1  # share of pages that change daily, before anything is known
_LEANS = 10.0  # a group leans on the larger one as if it had this many pages of it
_LEAST = 1e-6  # no hour is ruled out
Host = TypeVar("Host")
Evidence = Sequence[float]
"""How much better each hour (UTC) predicted what the visits saw than a constant rate, as a logarithm."""


@dataclass(frozen=True)
class Habit:
    """The probability that a page changes daily, hour by hour."""

    hours: Sequence[float]
    other: float
    """The probability that it does not change daily."""

    @cached_property
    def daily(self) -> float:
        return sum(self.hours)

    @cached_property
    def likeliest(self) -> float:
        return max(self.hours)


def habit(hours: Sequence[float]) -> Habit:
    return Habit(hours, max(1.0 - sum(hours), _LEAST))


USUAL = habit((_DAILY / HOURS,) * HOURS)


def weights(evidence: Evidence, assumed: Habit) -> list[float]:
    """How likely each hour is beside `assumed.other` for none of them; they do not add up to 1."""
    return list(map(mul, assumed.hours, map(exp, evidence)))


class Pages:
    """Adds up what is known about pages."""

    def __init__(self) -> None:
        self.count = 0
        self.hours = [0.0] * HOURS

    def add(self, evidence: Evidence, assumed: Habit) -> None:
        likely = weights(evidence, assumed)
        total = sum(likely) + assumed.other
        self.count += 1
        self.hours = [so_far + one / total for so_far, one in zip(self.hours, likely, strict=True)]


def fit(hosts: Mapping[Host, Pages]) -> tuple[Habit, dict[Host, Habit]]:
    """The habit of all pages, and of each host's."""
    sums = [sum(column) for column in zip(*(pages.hours for pages in hosts.values()), strict=True)]
    everyone = _lean(sums or [0.0] * HOURS, sum(pages.count for pages in hosts.values()), USUAL)
    return everyone, {host: _lean(pages.hours, pages.count, everyone) for host, pages in hosts.items()}


def _lean(sums: Iterable[float], count: int, on: Habit) -> Habit:
    return habit(
        tuple(
            max((own + _LEANS * share) / (count + _LEANS), _LEAST)
            for own, share in zip(sums, on.hours, strict=True)
        )
    )
