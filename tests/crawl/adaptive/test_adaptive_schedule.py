"""An adaptive policy from its creation to its next visit, through the real tables."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from opilio.contracts.policies import PolicyPatch
from tests.crawl.farm import Farm, FarmMaker, said

LEARNT = "select rate_shape, rate_days, visits, changes_seen, interval_days, price_used, daily_hours from policy_state"


async def visit(farm: Farm, **fields: Any) -> dict[str, Any]:
    """One job made, pulled and submitted."""
    await farm.due()
    (job,) = await farm.pull()
    return said(await farm.submit(job, **fields))


async def learnt(farm: Farm) -> Any:
    return (await farm.rows(LEARNT))[0]


async def adaptive(farm: Farm, **fields: Any) -> Any:
    policy_id = await farm.policy(schedule="adaptive", **fields)
    await farm.opilio.budgets.refit()
    farm.later(hours=1)
    return policy_id


async def test_it_works(farm: Farm) -> None:
    policy_id = await adaptive(farm)
    first = await visit(farm)
    assert (await learnt(farm))["visits"] == 0  # the first visit is no observation
    seen = []
    for day in range(1, 9):
        farm.later(days=2)
        await farm.opilio.budgets.refit()
        answer = await visit(farm, price=10 + day)
        seen.append(answer)
    row = await learnt(farm)
    assert (row["visits"], row["changes_seen"]) == (8, 8)
    assert row["rate_shape"] > 1
    assert row["price_used"] > 0
    policy = await farm.opilio.insights.policy(policy_id)
    assert policy.schedule == "adaptive"
    assert first["policy_next_run"] != seen[-1]["policy_next_run"]


async def test_not_modified_is_an_unchanged_visit_without_a_result(farm: Farm) -> None:
    await adaptive(farm)
    first = await visit(farm, validators={"etag": '"a"', "last_modified": "Wed, 21 Oct 2015 07:28:00 GMT"})
    farm.later(days=40)
    await farm.due()
    (job,) = await farm.pull()
    assert job.validators is not None
    assert (job.validators.etag, job.validators.last_modified) == ('"a"', "Wed, 21 Oct 2015 07:28:00 GMT")
    done = said(
        (await farm.opilio.submitter.submit([farm.sent(job, price=None, currency=None, not_modified=True)]))[
            0
        ]
    )
    assert (done["status"], done["result_id"], done["price"]) == ("done", first["result_id"], 9.99)
    assert await farm.value("select count(*) from stored_result") == 1
    row = await learnt(farm)
    assert (row["visits"], row["changes_seen"]) == (1, 0)
    assert row["rate_days"] == pytest.approx(40, rel=0.01)
    event = await farm.value("select data from event_log order by seq desc limit 1")
    assert event["not_modified"] is True
    assert event["result_id"] == first["result_id"]
    assert await farm.value("select last_success_at from policy_state") == farm.clock.at


async def test_failures_change_no_estimate(farm: Farm) -> None:
    await adaptive(farm, max_retries=0)
    await visit(farm)
    farm.later(days=40)
    await visit(farm, price=5)
    before = await learnt(farm)
    farm.later(days=40)
    await farm.due()
    (job,) = await farm.pull()
    await farm.fail(job, error_code="TIMEOUT")
    assert await learnt(farm) == before
    farm.later(days=2)
    await visit(farm, price=5)
    assert (await learnt(farm))["rate_days"] > before["rate_days"] + 20  # the gap spans the failure


async def test_html_hash_decides_where_no_value_is_tracked(farm: Farm) -> None:
    await adaptive(farm)
    nested = {"price": None, "currency": None, "data": {"deep": {"er": 1}}}
    await visit(farm, html_hash="a", **nested)
    for hashed, changes in (("a", 0), ("b", 1)):
        farm.later(days=40)
        await visit(farm, html_hash=hashed, **nested)
        assert (await learnt(farm))["changes_seen"] == changes
    farm.later(days=40)
    await visit(farm, **nested)
    assert (await learnt(farm))["visits"] == 2  # nobody can tell: no observation


async def test_small_moves_within_the_tolerance_are_no_change(farm_with: FarmMaker) -> None:
    farm = farm_with(change_tolerance_percent={"price": 1.0})
    await adaptive(farm)
    await visit(farm, price=100)
    farm.later(days=40)
    await visit(farm, price=100.9)
    assert (await learnt(farm))["changes_seen"] == 0
    farm.later(days=40)
    await visit(farm, price=105)
    assert (await learnt(farm))["changes_seen"] == 1


async def test_a_known_time_of_change_uses_the_exact_update(farm: Farm) -> None:
    await adaptive(farm)
    await visit(farm)
    farm.later(days=40)
    at = (farm.clock.at - timedelta(hours=1)).isoformat()
    await visit(farm, price=5, changed_at=at)
    row = await learnt(farm)
    assert row["rate_shape"] == pytest.approx(1.0)
    assert row["rate_days"] == pytest.approx(1 / 24, rel=0.01)


async def test_a_repeated_submit_teaches_once(farm: Farm) -> None:
    await adaptive(farm)
    await visit(farm)
    farm.later(days=40)
    await farm.due()
    (job,) = await farm.pull()
    first = said(await farm.submit(job, price=3))
    assert said(await farm.submit(job, price=3)) == first
    assert (await learnt(farm))["visits"] == 1


async def test_a_refused_submission_of_the_same_job_changes_nothing_of_the_accepted_one(farm: Farm) -> None:
    """Both are in one batch, as the server coalesces them."""
    await adaptive(farm)
    await visit(farm, price=10)
    farm.later(days=2)
    await farm.due()
    (job,) = await farm.pull()
    accepted = farm.sent(job, price=11)
    refused = farm.sent(msgspec.structs.replace(job, lock_token=uuid4()), price=99)
    replies = await farm.opilio.submitter.submit([accepted, refused])
    assert [reply.refusal is None for reply in replies] == [True, False]
    changes = await farm.rows("select new from value_change where field = 'price' and old is not null")
    assert [change["new"] for change in changes] == [11]


async def test_bounds_win_over_the_optimum(farm: Farm) -> None:
    await adaptive(farm, min_interval_hours=48, max_interval_hours=72)
    answer = await visit(farm)
    for _ in range(6):
        farm.later(days=4)
        answer = await visit(farm, price=1)
    wait = await farm.value("select next_run_at from policy_state") - farm.clock.at
    assert timedelta(hours=48) <= wait <= timedelta(hours=72 * 1.05), answer


async def test_back_to_fixed_and_again_adaptive_without_loss(farm: Farm) -> None:
    policy_id = await adaptive(farm, frequency_hours=24, min_interval_hours=200)
    await visit(farm)
    farm.later(days=40)
    await visit(farm)
    before = await learnt(farm)
    await farm.opilio.policies.change(policy_id, PolicyPatch(schedule="fixed"))
    assert await farm.value("select next_run_at from policy_state") == farm.clock.at + timedelta(hours=24)
    farm.later(hours=25)
    await visit(farm)  # the fixed schedule makes its job without any budget
    assert (await learnt(farm))["visits"] == before["visits"]
    await farm.opilio.policies.set_schedule([policy_id], "adaptive")
    farm.later(days=40)
    await visit(farm)
    assert (await learnt(farm))["visits"] == before["visits"] + 1


async def test_jobs_are_made_within_the_budget(farm_with: FarmMaker) -> None:
    farm = farm_with(crawl_budget_per_day=240)
    made = await farm.policies(100, frequency_hours=1)
    await farm.rows("update policy_state set last_success_at = $1", farm.clock.at)
    await farm.opilio.policies.set_schedule(made, "adaptive")
    await farm.opilio.budgets.refit()
    assert await farm.due() == 0
    farm.later(minutes=6)
    assert await farm.due() == 1
    farm.later(minutes=12)
    assert await farm.due() == 2
    farm.later(hours=10)  # what was not used is lost but for 20 minutes
    assert await farm.due() == 3
    await farm.audit()


async def test_pools_have_budgets_of_their_own(farm_with: FarmMaker) -> None:
    farm = farm_with(crawl_budget_per_day=100, crawl_budgets={"news": 30})
    await farm.policies(10, host="a.example", schedule="adaptive", labels={"pool": "news"})
    await farm.policies(10, host="b.example", schedule="adaptive", frequency_hours=8)
    await farm.policies(10, host="c.example", schedule="adaptive", labels={"pool": "other"})
    await farm.opilio.budgets.refit()
    found = await farm.rows("select pool, budget_per_day from crawl_pool order by pool")
    assert [(row["pool"], row["budget_per_day"]) for row in found] == [("", 75), ("news", 30), ("other", 25)]


async def test_without_a_budget_it_costs_what_the_frequencies_cost(farm: Farm) -> None:
    await farm.policies(10, schedule="adaptive", frequency_hours=6)
    await farm.opilio.budgets.refit()
    assert await farm.value("select budget_per_day from crawl_pool") == pytest.approx(40)


async def test_two_refits_at_once_move_the_price_once(farm: Farm, farm_with: FarmMaker) -> None:
    import asyncio

    await farm.policies(10, schedule="adaptive")
    other = farm_with()
    done = await asyncio.gather(farm.opilio.budgets.refit(), other.opilio.budgets.refit())
    assert sorted(done) == [0, 1]
    assert await farm.opilio.budgets.refit() == 0  # not before its time


async def test_a_host_with_a_delay_gets_a_price_of_its_own(farm: Farm) -> None:
    await farm.policies(60, host="slow.example", schedule="adaptive", frequency_hours=1)
    await farm.rows("update host set min_delay_seconds = 3600 where name = 'slow.example'")
    await farm.rows(
        "update policy_state set last_success_at = now(), interval_days = 0.05, price_used = 1, rate_shape = 5, rate_days = 1"
    )
    for _ in range(4):
        await farm.opilio.budgets.refit(every=0)
        farm.later(minutes=15)
    assert await farm.value("select crawl_price from host where name = 'slow.example'") > await farm.value(
        "select price from crawl_pool"
    )


async def test_idle_bots_take_the_nearest_pages_early(farm_with: FarmMaker) -> None:
    farm = farm_with(crawl_fill_idle=True, crawl_budget_per_day=500)
    await adaptive(farm)
    await visit(farm)
    row = (await farm.rows("select due_at, early_at from policy_due"))[0]
    farm.clock.at = row["early_at"] - timedelta(minutes=1)
    assert await farm.due() == 0
    farm.clock.at = row["early_at"] + timedelta(minutes=1)
    assert farm.clock.at < row["due_at"]
    assert await farm.due() == 1


async def test_idle_bots_never_go_beyond_the_budget_and_only_if_wanted(farm_with: FarmMaker) -> None:
    farm, careful = farm_with(crawl_fill_idle=True, crawl_budget_per_day=240), farm_with()
    made = await farm.policies(50, frequency_hours=1)
    await farm.rows("update policy_state set last_success_at = $1", farm.clock.at)
    await farm.opilio.policies.set_schedule(made, "adaptive")
    await farm.opilio.budgets.refit()
    early, late = farm.clock.at, farm.clock.at + timedelta(days=9)
    await farm.rows("update policy_due set early_at = $1, due_at = $2", early, late)
    farm.later(minutes=12)
    assert await careful.due() == 0  # the option is off
    assert await farm.due() == 2  # all fifty may be taken early; the budget of 12 minutes pays for two
    assert len(await farm.pull()) == 2
    assert await farm.due() == 0
    farm.later(hours=5)
    assert await farm.due() == 3  # what was not used is lost but for 20 minutes


async def test_priors_are_fitted_at_night(farm: Farm) -> None:
    await farm.policies(80, schedule="adaptive", frequency_hours=1)
    await farm.opilio.budgets.refit()
    assert await farm.opilio.budgets.refit_priors() == 0
    await farm.rows("update policy_state set rate_shape = 8, rate_days = 2, last_success_at = now()")
    assert await farm.opilio.budgets.refit_priors() == 1
    assert await farm.opilio.budgets.refit_priors() == 0
    shared = (await farm.rows("select prior_shape, prior_days from crawl_pool"))[0]
    own = (await farm.rows("select prior_shape, prior_days from host"))[0]
    assert shared["prior_shape"] / shared["prior_days"] == pytest.approx(8.3 / (2 + 1 / 24), rel=0.01)
    assert own["prior_shape"] == pytest.approx(shared["prior_shape"], rel=0.01)


async def test_digamma_in_sql_is_digamma(farm: Farm) -> None:
    from opilio.crawl.adaptive.change_rate import digamma

    for x in (0.05, 0.3, 1.0, 7.5, 400.0):
        assert await farm.value("select opilio_digamma($1)", x) == pytest.approx(digamma(x), abs=1e-7)
