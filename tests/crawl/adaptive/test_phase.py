"""Pages that change daily at one hour."""

from math import exp, log
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from opilio.crawl.adaptive import phase
from opilio.crawl.adaptive.change_rate import Rate, chance_of_no_change
from opilio.crawl.adaptive.rule import Learnt, Terms, Visit, learn, plan

_PRIOR = Rate(0.3, 1.0)


def run(changes, steps: int, seed: int = 1) -> tuple[Learnt, float]:
    """Follows the rule's own plan over a page that changes at `changes(last, now)`."""
    random, learnt, last = Random(seed), Learnt(hours=phase.UNKNOWN), 0.0
    terms = Terms(weight=1.0, price=0.1, shortest=0.01, longest=30.0)
    now = 0.3
    for _ in range(steps):
        seen = changes(last, now)
        learnt = learn(learnt, _PRIOR, Visit(last, now, seen))
        last, now = (
            now,
            now + plan(learnt, _PRIOR, terms, now, (random.random(), random.random()), changed=seen).days,
        )
    return learnt, last


def quiet(gap: float) -> float:
    """How likely a page that changes about once a day stays the same for `gap` days."""
    return chance_of_no_change(Rate(20.0, 20.0), gap)


def daily(hour: float):
    return lambda last, now: int(now - hour / 24) > int(last - hour / 24) if last >= 1 else False


def test_the_hour_is_learnt_and_the_crawl_comes_after_it() -> None:
    learnt, now = run(daily(14.4), 120)
    window = phase.learnt(learnt.hours)
    assert window is not None
    assert window.start <= 14.4 / 24 <= window.end
    terms = Terms(1.0, 0.1, 0.01, 30.0)
    after = plan(learnt, _PRIOR, terms, now, (0.5, 0.99))
    hour = (now + after.days) % 1.0 * 24
    assert 14.4 < hour < 14.4 + 3.2
    assert after.early == after.days


def test_a_page_without_a_rhythm_is_not_locked() -> None:
    random = Random(8)
    learnt, _ = run(lambda last, now: random.random() < 1 - 2.718 ** -(now - last), 300)
    assert phase.learnt(learnt.hours) is None


def test_a_page_that_loses_its_rhythm_is_let_go() -> None:
    hours = list(phase.UNKNOWN)
    for day in range(60):  # before and after the hour
        for last, now, change in ((day - 0.34, day + 0.59, False), (day + 0.59, day + 0.66, True)):
            hours = phase.observe(hours, quiet(now - last), last, now, change=change, kept=1.0)
    assert phase.learnt(hours) is not None
    for day in range(60, 90):
        hours = phase.observe(hours, quiet(1.0), day + 0.66, day + 1.66, change=False, kept=1.0)
    assert phase.learnt(hours) is None


def passes_of_each_hour(last: float, now: float) -> list[float]:
    """The definition: every hour of every day, as far as it lies between the two moments."""
    passes = [0.0] * 24
    for hour in range(int(last * 24), int(now * 24) + 1):
        passes[hour % 24] += max(0.0, min(now * 24, hour + 1) - max(last * 24, hour))
    return passes


def evidence_of_each_hour(evidence, same: float, last: float, now: float, change: bool, kept: float):
    """The definition: log of the hour's probability of what was seen, against that of the Gamma, hour by hour."""
    after = []
    for score, count in zip(evidence, passes_of_each_hour(last, now), strict=True):
        no_change = 0.1**count * exp(-0.02 * (now - last))
        seen, general = (1 - no_change, 1 - same) if change else (no_change, same)
        gained = log(max(seen, 1e-3)) - log(max(general, 1e-12))
        after.append(min(max(score * kept + gained, -20.0), 20.0))
    return after


@given(st.floats(0, 2000), st.floats(0.0001, 50))
@example(10.5, 0.999)  # ends in the hour in which it began, a day later
@example(10.51, 0.001)
@example(10.0, 1.0)
def test_every_hour_passes_once_a_day(last: float, gap: float) -> None:
    first, passes = phase._passes(last, last + gap)
    counts = [count for count, hours in passes for _ in range(hours)]
    assert len(counts) == 24
    assert counts[24 - first :] + counts[: 24 - first] == pytest.approx(
        passes_of_each_hour(last, last + gap), abs=1e-6
    )


@given(
    st.lists(st.floats(-20, 20), min_size=24, max_size=24),
    st.floats(1e-6, 1 - 1e-6),
    st.floats(0, 2000),
    st.floats(0.001, 50),
    st.booleans(),
    st.floats(0.5, 1),
)
def test_the_evidence_is_that_of_each_hour(evidence, same, last, gap, change, kept) -> None:
    found = phase.observe(evidence, same, last, last + gap, change=change, kept=kept)
    assert found == pytest.approx(
        evidence_of_each_hour(evidence, same, last, last + gap, change, kept), abs=1e-5
    )


@given(st.lists(st.floats(-50, 50), min_size=24, max_size=24))
def test_a_window_has_at_most_three_hours(evidence: list[float]) -> None:
    window = phase.learnt(evidence)
    assert window is None or 0 < window.end - window.start <= 3 / 24 + 1e-9


def test_a_dear_crawl_skips_days_and_a_hopeless_one_waits_longest() -> None:
    window = phase.Window(0.5, 0.6)
    wait, cycle = phase.next_visit(window, 0.7, 0.5, 30.0)
    assert wait < 1.0 == cycle
    wait, cycle = phase.next_visit(window, 0.7, 1.0, 30.0)
    assert 1.0 < wait < cycle == 2.0
    assert phase.next_visit(window, 0.7, 5.0, 30.0) == (30.0, 30.0)


def test_a_visit_just_before_the_window_asks_for_no_more_crawls_a_day() -> None:
    window = phase.Window(0.5, 0.6)
    wait, cycle = phase.next_visit(window, 0.59, 0.5, 30.0)
    assert wait < 0.02
    assert cycle == 1.0
