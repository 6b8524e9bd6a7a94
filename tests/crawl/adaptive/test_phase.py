"""Pages that change daily at one hour."""

from math import exp, log
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from opilio.crawl.adaptive import phase
from opilio.crawl.adaptive.change_rate import Rate, chance_of_no_change
from opilio.crawl.adaptive.habit import Habit, habit
from opilio.crawl.adaptive.rule import Learnt, Terms, Visit, learn, plan
from opilio.crawl.adaptive.value import value

_PRIOR = Rate(0.3, 1.0)
UNLIKELY = phase.Window(0.0, 0.0, 0.0)


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
    window = phase.likely(learnt.hours)
    assert window is not None
    assert window.chance > phase.SURE
    assert window.start <= 14.4 / 24 <= window.end
    terms = Terms(1.0, 0.1, 0.01, 30.0)
    after = plan(learnt, _PRIOR, terms, now, (0.5, 0.99))
    hour = (now + after.days) % 1.0 * 24
    assert 14.4 < hour < 14.4 + 3.2
    assert after.early == after.days


def test_a_page_without_a_rhythm_is_not_locked() -> None:
    random = Random(8)
    learnt, _ = run(lambda last, now: random.random() < 1 - 2.718 ** -(now - last), 300)
    assert phase.likely(learnt.hours) is None


def test_a_page_that_loses_its_rhythm_is_let_go() -> None:
    hours = list(phase.UNKNOWN)
    for day in range(60):  # before and after the hour
        for last, now, change in ((day - 0.34, day + 0.59, False), (day + 0.59, day + 0.66, True)):
            hours = phase.observe(hours, quiet(now - last), last, now, change=change, kept=1.0)
    assert (phase.likely(hours) or UNLIKELY).chance > 0.99
    for day in range(60, 90):
        hours = phase.observe(hours, quiet(1.0), day + 0.66, day + 1.66, change=False, kept=1.0)
    assert phase.likely(hours) is None


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


def narrowest_window(evidence, assumed: Habit) -> phase.Window | None:
    """The definition: of windows of one to three hours, the narrowest that is nearly as likely as the likeliest."""
    odds = [share * exp(score) for share, score in zip(assumed.hours, evidence, strict=True)]
    total = sum(odds) + assumed.other
    pairs = [odds[hour] + odds[(hour + 1) % 24] for hour in range(24)]
    triples = [pairs[hour] + odds[(hour + 2) % 24] for hour in range(24)]
    enough = max(0.8 * max(triples), 0.05 * total)
    found = [
        (width, likely) for width, likely in enumerate((odds, pairs, triples), 1) if max(likely) >= enough
    ]
    if not found:
        return None
    width, likely = found[0]
    start = likely.index(max(likely))
    return phase.Window(start / 24, (start + width) / 24, max(likely) / total)


@given(
    st.lists(st.floats(-4, 5), min_size=24, max_size=24),
    st.lists(st.floats(1e-6, 0.04), min_size=24, max_size=24),
)
@example([0.0] * 24, [0.1 / 24] * 24)  # all the same: no window
@example([1.2] * 24, [0.1 / 24] * 24)
@example([0.0] * 8 + [1.45] * 3 + [0.0] * 13, [0.1 / 24] * 24)  # only the three together are likely enough
@example([5.0] + [-4.0] * 23, [0.1 / 24] * 24)
def test_the_window_is_the_narrowest_of_all(evidence: list[float], hours: list[float]) -> None:
    assert phase.likely(evidence, habit(hours)) == narrowest_window(evidence, habit(hours))


@given(st.lists(st.floats(-50, 50), min_size=24, max_size=24))
def test_a_window_has_at_most_three_hours(evidence: list[float]) -> None:
    window = phase.likely(evidence)
    assert window is None or 0 < window.end - window.start <= 3 / 24 + 1e-9


@given(st.lists(st.floats(-20, 20), min_size=24, max_size=24), st.floats(0.001, 0.9))
def test_the_chance_is_that_of_the_hours_in_the_window(evidence: list[float], daily: float) -> None:
    hours = [daily / 24] * 24
    window = phase.likely(evidence, habit(hours))
    odds = [daily / 24 * exp(score) for score in evidence]
    total = sum(odds) + 1 - daily
    if window is None:
        assert max(odds) < 0.05 * total
        return
    first, last = round(window.start * 24), round(window.end * 24)
    assert window.chance == pytest.approx(sum(odds[hour % 24] for hour in range(first, last)) / total)
    assert window.chance >= 0.8 * max(odds) / total


def wait_and_interval(now: float, price: float, chance: float = 1.0) -> tuple[float, float]:
    """The plan of a page that changes between 12:00 and 13:00, told by its host alone."""
    hours = [0.0] * 24
    hours[12] = chance
    learnt = Learnt(hours=phase.UNKNOWN)
    found = plan(
        learnt, _PRIOR, Terms(1.0, price, 0.01, 30.0), now, (0.5, 0.99), habit=Habit(hours, 1 - chance)
    )
    return found.days, found.interval


def test_a_dear_crawl_skips_days_and_a_hopeless_one_waits_for_long() -> None:
    wait, cycle = wait_and_interval(0.7, 0.5)
    assert wait < 1.0 == cycle
    wait, cycle = wait_and_interval(0.7, 1.0)
    assert 1.0 < wait < cycle == 2.0
    assert wait_and_interval(0.7, 5.0) == (30.0, 30.0)


def test_a_visit_just_before_the_window_asks_for_no_more_crawls_a_day() -> None:
    wait, cycle = wait_and_interval(0.54, 0.5)
    assert wait < 0.02
    assert cycle == 1.0


def test_the_value_of_a_visit_weighs_both_cases() -> None:
    """A page that may change daily is worth a visit after the window if what that wins is likely enough."""
    rate, price = _PRIOR, 0.5
    for chance in (0.1, 0.3, 0.5, 0.7, 0.9):
        wait, days = wait_and_interval(0.7, price, chance)
        past = wait + 0.7
        at_window = past % 1.0 == pytest.approx(13 / 24 + 5 / 1440)
        passed = int(past - 13 / 24 - 5 / 1440 + 1e-9)  # windows before the visit
        won = [0.0, *phase.WORTH][passed] * chance + (1 - chance) * value(rate, wait)
        if at_window:
            assert won >= price - 1e-9
            assert days == passed
        else:
            assert won == pytest.approx(price, rel=0.01)
