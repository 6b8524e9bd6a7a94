"""Replays one trace through every rule with the same number of crawls."""

from collections.abc import Callable

import msgspec

from opilio.crawl.adaptive.simulation.adaptive import Adaptive
from opilio.crawl.adaptive.simulation.peers import Nutch, Oracle, Priority, StormCrawler, Uniform
from opilio.crawl.adaptive.simulation.replay import Rule, replay
from opilio.crawl.adaptive.simulation.score import Score
from opilio.crawl.adaptive.simulation.trace import Trace
from opilio.errors import OpilioError

MOST_BUDGET = 96.0
"""Crawls per page and day: one every 15 minutes, the shortest interval."""
_WARM_UP = 0.15  # of the history

RULES: dict[str, Callable[[Trace, float], Rule]] = {
    "uniform": Uniform,
    "priority": Priority,
    "stormcrawler": StormCrawler,
    "nutch": Nutch,
    "adaptive": lambda trace, budget: Adaptive(trace, budget, daily_phase=True),
    "oracle": lambda trace, budget: Oracle(trace, budget, trace.rates()),
}


class Comparison(msgspec.Struct, frozen=True):
    pages: int
    changes: int
    days: float
    budget: float
    warm_up_days: float
    policies: dict[str, Score]


def compare(
    trace: Trace,
    budget: float,
    warm_up: float | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """`budget` is in crawls per page and day; what happens in the warm-up is not scored."""
    warm_up = _WARM_UP * trace.days if warm_up is None else warm_up
    if not 0.0 < budget <= MOST_BUDGET:
        raise OpilioError(
            f"the budget is in crawls per page and day, above 0 and at most {MOST_BUDGET:g}; {budget:g} is not"
        )
    if not 0.0 <= warm_up < trace.days:
        raise OpilioError(f"the trace lasts {trace.days:.0f} days; a warm-up of {warm_up:g} leaves nothing")
    if (trace.days - warm_up) * budget * len(trace.urls) < 1.0:
        raise OpilioError("the budget does not pay for a single crawl after the warm-up")
    scores = {}
    for name, make in RULES.items():
        progress(name)
        scores[name] = replay(trace, make(trace, budget), budget=budget, warm_up=warm_up)
    return Comparison(
        pages=len(trace.urls),
        changes=trace.total_changes,
        days=trace.days,
        budget=budget,
        warm_up_days=warm_up,
        policies=scores,
    )
