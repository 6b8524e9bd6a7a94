"""The rule as a whole: what a visit teaches and when the next one comes."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from opilio.crawl.adaptive import phase
from opilio.crawl.adaptive.change_rate import Rate
from opilio.crawl.adaptive.rule import Learnt, Terms, Visit, learn, plan, retry_wait, weight_of

_PRIOR = Rate(0.3, 1.0)
_TERMS = Terms(weight=1.0, price=0.2, shortest=0.25 / 24, longest=30.0)
chances = st.tuples(st.floats(0, 1), st.floats(0, 1))


def after(visits: int, *, change: bool, hours=None) -> Learnt:
    learnt = Learnt(hours=hours)
    for day in range(visits):
        learnt = learn(learnt, _PRIOR, Visit(float(day), day + 1.0, change))
    return learnt


def test_a_page_that_changes_is_visited_sooner() -> None:
    lively, quiet = after(10, change=True), after(10, change=False)
    assert (
        plan(lively, _PRIOR, _TERMS, 10.0, (0.5, 0.5)).days
        < plan(quiet, _PRIOR, _TERMS, 10.0, (0.5, 0.5)).days
    )


def test_a_page_that_is_stale_before_anyone_looks_is_not_worth_it() -> None:
    learnt = Learnt()
    for step in range(200):
        learnt = learn(learnt, _PRIOR, Visit(step * 0.01, (step + 1) * 0.01, changed=True))
    assert plan(learnt, _PRIOR, _TERMS, 2.0, (0.5, 0.5)).interval == _TERMS.longest


def test_an_important_page_is_visited_sooner() -> None:
    learnt = after(5, change=False)
    usual = plan(learnt, _PRIOR, _TERMS, 5.0, (0.5, 0.5)).days
    assert plan(learnt, _PRIOR, replace(_TERMS, weight=weight_of(100)), 5.0, (0.5, 0.5)).days < usual
    assert weight_of(50) == 1.0


def test_a_result_that_is_not_newer_teaches_nothing() -> None:
    learnt = after(3, change=True)
    assert learn(learnt, _PRIOR, Visit(3.0, 3.0, changed=True)) is learnt
    assert learn(learnt, _PRIOR, Visit(3.0, 2.0, changed=True)) is learnt


def test_a_stamp_from_before_the_last_visit_is_not_believed() -> None:
    learnt = after(3, change=False)
    plain = learn(learnt, _PRIOR, Visit(3.0, 4.0, changed=True))
    assert learn(learnt, _PRIOR, Visit(3.0, 4.0, changed=True, changed_at=1.0)) == plain
    assert learn(learnt, _PRIOR, Visit(3.0, 4.0, changed=True, changed_at=5.0)) == plain
    assert learn(learnt, _PRIOR, Visit(3.0, 4.0, changed=True, changed_at=3.9)) != plain


@given(
    st.lists(st.tuples(st.floats(1e-6, 400), st.booleans()), max_size=40),
    st.floats(1e-6, 1e6),
    st.floats(1e-4, 1e4),
    st.booleans(),
    chances,
)
def test_every_plan_lies_within_the_bounds(history, price, weight, daily, chance) -> None:
    learnt, now = Learnt(hours=phase.UNKNOWN if daily else None), 0.0
    for gap, change in history:
        learnt = learn(learnt, _PRIOR, Visit(now, now + gap, change))
        now += gap
    terms = Terms(weight, price, 0.25 / 24, 30.0)
    found = plan(learnt, _PRIOR, terms, now, chance, changed=bool(history and history[-1][1]))
    assert terms.shortest <= found.interval <= terms.longest
    assert terms.shortest <= found.days <= terms.longest * 1.05
    assert 0 <= found.early <= found.days


@given(st.integers(0, 100), st.floats(0.01, 30), st.floats(0, 1))
def test_a_failed_page_is_tried_again_within_hours(streak: int, interval: float, chance: float) -> None:
    assert 0 < retry_wait(streak, interval, chance) < 0.25 * 1.2 + 1e-9
    assert retry_wait(0, interval, 0.5) == pytest.approx(1 / 96)


@pytest.mark.parametrize("hours", [None, phase.UNKNOWN])
def test_a_result_takes_few_calls_however_many_came_before(hours) -> None:
    """Calls are the same on every machine; `bench freshness` measures the time."""

    def calls(visits: int) -> int:
        learnt, count = after(visits, change=True, hours=hours), 0

        def seen(_frame: object, event: str, _what: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(seen)
        try:
            known = learn(learnt, _PRIOR, Visit(visits, visits + 1.3, changed=True))
            plan(known, _PRIOR, _TERMS, visits + 1.3, (0.5, 0.5), changed=True)
        finally:
            sys.setprofile(None)
        return count

    assert max(calls(20), calls(200), calls(2_000)) <= 120


def test_doubt_about_the_daily_hour_brings_an_important_page_forward() -> None:
    hours = list(phase.UNKNOWN)
    hours[12] = 6.8  # likely, and not certain
    learnt = replace(after(10, change=True), hours=hours)
    window = phase.likely(hours)
    assert window is not None
    assert 0.7 < window.chance < 0.9
    usual = plan(learnt, _PRIOR, _TERMS, 10.6, (0.5, 0.99))
    assert usual.interval == 1.0
    assert (10.6 + usual.days) % 1.0 == pytest.approx(13 / 24 + 5 / 1440)
    heavy = plan(learnt, _PRIOR, replace(_TERMS, weight=300.0), 10.6, (0.5, 0.99))
    assert heavy.days == heavy.interval < 0.2


def test_a_fleet_of_a_few_daily_pages_keeps_its_price() -> None:
    """The demand of a daily page is that of its cycle, whenever in it the page was visited."""
    hours = list(phase.UNKNOWN)
    hours[12] = 15.0
    learnt = replace(after(10, change=True), hours=hours)
    found = {plan(learnt, _PRIOR, _TERMS, 10 + hour / 24, (0.5, 0.99)).interval for hour in range(24)}
    assert found == {1.0}
