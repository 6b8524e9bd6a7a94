"""Pages that change daily at one hour."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.crawl.adaptive import phase
from opilio.crawl.adaptive.change_rate import Rate
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
            hours = phase.observe(hours, Rate(20.0, 20.0), last, now, change=change)
    assert phase.learnt(hours) is not None
    for day in range(60, 90):
        hours = phase.observe(hours, Rate(20.0, 20.0), day + 0.66, day + 1.66, change=False)
    assert phase.learnt(hours) is None


@given(st.floats(0, 2000), st.floats(0.0001, 50))
def test_every_hour_passes_once_a_day(last: float, gap: float) -> None:
    passes = phase._passes(last, last + gap)
    assert sum(passes) == pytest.approx(gap * 24, rel=1e-6, abs=1e-6)
    assert all(int(gap) <= count + 1e-9 <= int(gap) + 1 + 1e-6 for count in passes)


@given(st.lists(st.floats(-50, 50), min_size=24, max_size=24))
def test_a_window_has_at_most_three_hours(evidence: list[float]) -> None:
    window = phase.learnt(evidence)
    assert window is None or 0 < window.end - window.start <= 3 / 24 + 1e-9


def test_a_dear_crawl_skips_days_and_a_hopeless_one_waits_longest() -> None:
    window = phase.Window(0.5, 0.6)
    assert phase.next_visit(window, 0.7, 0.5, 30.0) < 1.0
    assert 1.0 < phase.next_visit(window, 0.7, 1.0, 30.0) < 2.0
    assert phase.next_visit(window, 0.7, 5.0, 30.0) == 30.0
