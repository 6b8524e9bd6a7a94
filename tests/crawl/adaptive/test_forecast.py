"""What people see: learnt rates, plans, reasons."""

from typing import Any

import pytest

from opilio.contracts.policies import PolicyPatch
from opilio.crawl.adaptive.change_rate import Rate
from opilio.crawl.adaptive.forecast import KnownPage, describe, forecast
from tests.crawl.adaptive.test_adaptive_schedule import adaptive, visit
from tests.crawl.farm import Farm, FarmMaker


def page(name: str, changes_per_day: float, weight: float = 1.0) -> KnownPage:
    return KnownPage(name, weight, Rate(50.0, 50.0 / changes_per_day), 1.0, 0.01, 30.0)


def test_the_same_crawls_are_fresher() -> None:
    pages = [page(f"slow{n}", 0.02) for n in range(50)] + [page(f"fast{n}", 1.0, 5.0) for n in range(10)]
    found = forecast(pages)
    assert found.crawls_per_day == pytest.approx(60, rel=0.01)
    assert found.freshness_adaptive > found.freshness_fixed + 0.05
    assert found.crawls_saved_per_day > 10
    assert {told.url[:4] for told in found.more} == {"fast"}
    assert {told.url[:4] for told in found.less} == {"slow"}


@pytest.mark.parametrize(
    ("rate", "days", "says"),
    [
        (Rate(10.0, 30.0), 0.83, "changes about every 3 days (1.9 to 5.5 days); worth a visit every 20 h"),
        (Rate(10.0, 0.01), 30.0, "too often for a copy to stay fresh"),
        (Rate(0.3, 4000.0), 30.0, "visited at its longest interval, 30 days"),
    ],
)
def test_one_sentence_says_why(rate: Rate, days: float, says: str) -> None:
    assert says in describe(rate, days, 30.0).replace("1.9 days to 5.5 days", "1.9 to 5.5 days")


async def test_a_policy_shows_what_it_learnt(farm: Farm) -> None:
    policy_id = await adaptive(farm)
    await visit(farm)
    assert (await farm.opilio.recrawl.policy(policy_id)).visits == 0
    for step in range(4):
        farm.later(days=40)
        await visit(farm, price=10 + step % 2)
    told = await farm.opilio.recrawl.policy(policy_id)
    assert (told.visits, told.changes_seen) == (4, 4)
    assert told.changes_per_day_low < told.changes_per_day < told.changes_per_day_high
    assert 0 < told.expected_freshness <= 1
    assert told.why.startswith("changes about every")
    fixed = await farm.policy()
    assert await farm.opilio.recrawl.policy(fixed) is None


async def test_why_explains_an_adaptive_wait(farm: Farm) -> None:
    policy_id = await adaptive(farm, min_interval_hours=2400, max_interval_hours=2400)
    await visit(farm)
    (reason,) = (r for r in (await farm.opilio.insights.policy_why(policy_id)).reasons if r.code == "not_due")
    assert "it changes about every" in reason.message


async def test_why_names_a_budget_that_is_used_up(farm_with: FarmMaker) -> None:
    farm = farm_with(crawl_budget_per_day=1)
    made = await farm.policies(3)
    await farm.rows(
        "update policy_state set last_success_at = now() - interval '2 days', next_run_at = now() - interval '1 day'"
    )
    await farm.opilio.policies.set_schedule(made, "adaptive")
    await farm.opilio.budgets.refit()
    codes = [reason.code for reason in (await farm.opilio.insights.policy_why(made[0])).reasons]
    assert "over_budget" in codes


async def test_a_plan_comes_from_the_value_history_and_changes_nothing(farm: Farm) -> None:
    assert await farm.opilio.recrawl.plan() is None
    await farm.policies(2, frequency_hours=24)
    for day in range(6):
        await farm.due()
        for job in await farm.pull():
            lively = job.url.endswith("/1")
            await farm.submit(job, price=day if lively else 5)
        farm.later(hours=24)
    before = await farm.rows("select policy_id, schedule from policy order by 1")
    found = await farm.opilio.recrawl.plan()
    assert found is not None
    assert (found.pages, round(found.crawls_per_day, 1)) == (2, 2.0)
    assert [told.url for told in found.less] == ["https://shop.example/0"]
    assert await farm.rows("select policy_id, schedule from policy order by 1") == before


async def test_the_fleet_shows_how_its_budget_is_used(farm: Farm) -> None:
    await adaptive(farm)
    await visit(farm)
    farm.later(days=40)
    await visit(farm)
    await farm.opilio.budgets.refit()
    (pool,) = await farm.opilio.recrawl.pools()
    assert (pool.pool, pool.pages, pool.budget_per_day) == ("", 1, 1.0)
    assert pool.jobs_created == 1  # the first visit waits for no budget
    assert pool.forecast is not None


async def test_import_and_patch_say_the_schedule(farm: Farm) -> None:
    (policy_id,) = await farm.policies(1, schedule="adaptive", max_interval_hours=100.0)
    policy = await farm.opilio.insights.policy(policy_id)
    assert (policy.schedule, policy.max_interval_hours) == ("adaptive", 100.0)
    await farm.opilio.policies.change(policy_id, PolicyPatch(schedule="fixed", max_interval_hours=None))
    policy = await farm.opilio.insights.policy(policy_id)
    assert (policy.schedule, policy.max_interval_hours) == ("fixed", None)


@pytest.mark.parametrize(
    "fields",
    [{"min_interval_hours": 10, "max_interval_hours": 5}, {"max_interval_hours": 1e9}],
)
async def test_wrong_bounds_are_refused(farm: Farm, fields: dict[str, Any]) -> None:
    with pytest.raises(Exception, match="interval_hours") as raised:
        await farm.policy(schedule="adaptive", **fields)
    assert type(raised.value).__name__ == "Invalid"
