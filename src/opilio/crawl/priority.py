"""The rule engine: policy and history → priority and queue. Rules are bands in the configuration, not code.

Each input has bands and one more points than bands: a value below the first band earns the first points, a
value at or above the last band the last. The scheduler evaluates the same table in SQL (`width_bucket`); a
test holds the two together.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

QUEUES = ("http", "js", "special")


@dataclass(frozen=True, slots=True)
class Bands:
    """A step function from a measured value to points."""

    bands: tuple[float, ...]
    points: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.bands or len(self.points) != len(self.bands) + 1:
            raise ValueError("a rule needs at least one band, and exactly one more points than bands")
        if list(self.bands) != sorted(set(self.bands)):
            raise ValueError("bands must rise")

    def __call__(self, value: float) -> int:
        return self.points[bisect_right(self.bands, value)]


@dataclass(frozen=True, slots=True)
class Rules:
    """The documented table of docs/reference/settings.md."""

    # Time since the last success, in frequencies: 1 is on time.
    overdue: Bands = field(default_factory=lambda: Bands((2, 4, 8), (0, 5, 10, 20)))
    # Share of failed crawls, newest weighing most.
    error_rate: Bands = field(default_factory=lambda: Bands((0.5, 0.9), (0, -5, -10)))
    # Business signal: 0 or 1.
    hot: Bands = field(default_factory=lambda: Bands((1,), (0, 20)))


@dataclass(frozen=True, slots=True)
class History:
    """What the rule engine may look at; never HTML."""

    importance: int
    overdue: float
    error_rate: float
    hot: bool


@dataclass(frozen=True, slots=True)
class Score:
    """A priority and the reasons that made it."""

    priority: int
    reasons: tuple[tuple[str, int], ...]


def overdue(seconds_since_success: float, frequency_hours: float) -> float:
    """Time since the last success, in frequencies; a frequency of next to nothing must not overflow."""
    return seconds_since_success / (max(frequency_hours, 1e-6) * 3600)


def score(history: History, rules: Rules) -> Score:
    reasons = (
        ("importance", history.importance),
        ("overdue", rules.overdue(history.overdue)),
        ("error_rate", rules.error_rate(history.error_rate)),
        ("hot", rules.hot(float(history.hot))),
    )
    total = sum(points for _, points in reasons)
    return Score(min(100, max(0, total)), reasons)


def choose_queue(
    queue: str | None, crawl_config: Mapping[str, Any], preferred: Sequence[tuple[str, str]] = ()
) -> str:
    """The queue that the user set; else the first whose `crawl_config` switch is on; else `http`."""
    if queue is not None:
        return queue
    for switch, target in (*preferred, ("special", "special"), ("js_required", "js")):
        if crawl_config.get(switch) is True:
            return target
    return "http"
