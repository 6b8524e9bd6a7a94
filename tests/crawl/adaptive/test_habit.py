"""How likely the pages of a host change daily, and when."""

from datetime import UTC, datetime, time, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.crawl.adaptive import phase
from opilio.crawl.adaptive.budget import BudgetKeeper, Budgets
from opilio.crawl.adaptive.habit import USUAL, Habit, Pages, fit
from opilio.crawl.adaptive.reschedule import habit_of, pack_hours
from tests.crawl.farm import Farm, said

AFTERNOON = 15


def sure_of(hour: int, score: float = 12.0) -> list[float]:
    return [score if one == hour else -8.0 for one in range(24)]


NOT_DAILY = [-9.0] * 24


def pages_of(*found: list[float], assumed: Habit = USUAL) -> Pages:
    pages = Pages()
    for evidence in found:
        pages.add(evidence, assumed)
    return pages


def test_a_host_is_what_its_pages_are() -> None:
    everyone, hosts = fit(
        {
            "shop": pages_of(*[sure_of(AFTERNOON)] * 300, *[NOT_DAILY] * 700),
            "blog": pages_of(*[NOT_DAILY] * 1000),
        }
    )
    assert hosts["shop"].hours[AFTERNOON] == pytest.approx(0.3, abs=0.01)
    assert hosts["shop"].other == pytest.approx(0.7, abs=0.01)
    assert hosts["blog"].other > 0.99
    assert everyone.hours[AFTERNOON] == pytest.approx(0.15, abs=0.01)


def test_a_page_without_evidence_does_not_move_what_was_assumed() -> None:
    everyone, hosts = fit({"shop": pages_of(*[phase.UNKNOWN] * 100)})
    for found in (everyone, hosts["shop"]):
        assert found.hours == pytest.approx(USUAL.hours)
        assert found.other == pytest.approx(USUAL.other)


def test_a_small_host_leans_on_everyone() -> None:
    many = {str(host): pages_of(*[NOT_DAILY] * 100) for host in range(20)}
    _, hosts = fit({**many, "new": pages_of(sure_of(AFTERNOON))})
    assert hosts["new"].hours[AFTERNOON] < 0.15


def test_no_pages_leave_the_usual_habit() -> None:
    everyone, hosts = fit({})
    assert everyone.hours == pytest.approx(USUAL.hours)
    assert hosts == {}


@given(st.lists(st.lists(st.floats(-20, 20), min_size=24, max_size=24), min_size=1, max_size=30))
def test_any_pages_leave_a_proper_distribution_that_rules_nothing_out(found: list[list[float]]) -> None:
    everyone, hosts = fit({"host": pages_of(*found)})
    for one in (everyone, hosts["host"], habit_of(pack_hours(hosts["host"].hours))):
        assert min(one.hours) > 0
        assert one.other > 0
        assert sum(one.hours) + one.other == pytest.approx(1.0, abs=1e-4)


def test_what_a_host_does_tells_an_ambiguous_page() -> None:
    """Seen changed every two days, a page may change daily at any hour; most pages of its host do so at one."""
    evidence = list(phase.UNKNOWN)
    for visit in range(8):
        evidence = phase.observe(evidence, 0.3, visit * 2.0, visit * 2.0 + 2.0, change=True, kept=1.0)
    assert phase.likely(evidence) is None or phase.likely(evidence).chance < 0.2
    _, hosts = fit({"shop": pages_of(*[sure_of(AFTERNOON)] * 50, *[NOT_DAILY] * 50)})
    window = phase.likely(evidence, hosts["shop"])
    assert window is not None
    assert (window.start * 24, window.end * 24) == (AFTERNOON, AFTERNOON + 1)
    assert window.chance > phase.SURE


def test_nights_find_the_hour_that_pages_share() -> None:
    """Each page alone leaves three hours open; together there is one that fits them all."""
    random = Random(5)
    found = []
    for _ in range(60):
        first = AFTERNOON - random.randrange(3)
        found.append([4.0 if first <= hour < first + 3 else -6.0 for hour in range(24)])
    habits = {"shop": USUAL}
    for _ in range(12):
        _, habits = fit({"shop": pages_of(*found, assumed=habits["shop"])})
    assert habits["shop"].hours[AFTERNOON] > 0.8 * (1 - habits["shop"].other)


async def test_habits_are_fitted_at_night_and_plan_the_visits_of_new_pages(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opilio.crawl.submit.random.random", lambda: 0.5)  # no visit at another time to learn
    # A visit that is planned near the hour anyway is moved to it even if the page hardly has the habit.
    farm.clock.at = (farm.clock.at + timedelta(days=1)).replace(hour=AFTERNOON - 9)
    daily = await farm.policies(60, host="news.example", schedule="adaptive", frequency_hours=24)
    await farm.policies(60, host="archive.example", schedule="adaptive", frequency_hours=24)
    await farm.opilio.budgets.refit()
    await farm.rows(
        "update policy_state set last_success_at = $3, rate_shape = 0.1, rate_days = 2,"
        " daily_hours = case when policy_id = any($1) then $2::bytea else $4::bytea end",
        daily,
        pack_hours(sure_of(AFTERNOON)),
        farm.clock.at,
        pack_hours(NOT_DAILY),
    )
    await farm.rows("update policy_due set due_at = 'infinity'")  # only the new pages are visited
    assert await farm.opilio.budgets.refit_priors() == 2
    stored = {
        row["name"]: row["prior_hours"] for row in await farm.rows("select name, prior_hours from host")
    }
    assert habit_of(stored["news.example"]).hours[AFTERNOON] > 0.8
    assert habit_of(stored["archive.example"]).other > 0.9
    assert 0.4 < habit_of(await farm.value("select prior_hours from crawl_pool")).other < 0.6

    assert await after_first_visit(farm, "https://news.example/new") == time(AFTERNOON + 1, 5)
    assert await after_first_visit(farm, "https://archive.example/new") != time(AFTERNOON + 1, 5)


async def after_first_visit(farm: Farm, url: str) -> time:
    """The time of day at which a page that was visited once is due again."""
    await farm.policy(url=url, schedule="adaptive", frequency_hours=24)
    await farm.due()
    (job,) = await farm.pull()
    due = datetime.fromisoformat(said(await farm.submit(job))["policy_next_run"])
    return due.astimezone(UTC).time().replace(second=0, microsecond=0)


async def test_pages_are_read_in_batches(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opilio.crawl.adaptive.budget._BATCH", 7)
    await farm.policies(60, schedule="adaptive")
    await farm.opilio.budgets.refit()
    await farm.rows(
        "update policy_state set last_success_at = now(), rate_shape = 0.1, rate_days = 2, daily_hours = $1",
        pack_hours(sure_of(AFTERNOON)),
    )
    keeper = BudgetKeeper(farm.opilio.database, Budgets(), clock=farm.clock)
    assert await keeper.refit_priors() == 1
    share = (60 + 10 * (60 + 10 * 0.1 / 24) / 70) / 70
    packed = await farm.value("select prior_hours from host")
    assert habit_of(packed).hours[AFTERNOON] == pytest.approx(share, abs=0.003)


async def test_people_are_told_of_an_hour_only_when_it_is_likely(farm: Farm) -> None:
    policy_id = await farm.policy(schedule="adaptive")
    await farm.opilio.budgets.refit()
    told = []
    for score in (4.0, 12.0):
        await farm.rows(
            "update policy_state set last_success_at = now(), interval_days = 1, rate_shape = 1, rate_days = 2, daily_hours = $1",
            pack_hours(sure_of(AFTERNOON, score)),
        )
        told.append((await farm.opilio.recrawl.policy(policy_id)).daily_window)
    assert told == [None, [AFTERNOON, AFTERNOON + 1]]
