"""Locks, hosts and pulls under concurrency: nothing is lost, no one waits without a reason."""

import asyncio
from datetime import timedelta

import pytest

from opilio.contracts.policies import PolicyPatch
from opilio.crawl.politeness import Limits
from opilio.crawl.pull import Pull
from tests.crawl.farm import Farm, FarmMaker, said


async def failed_job(farm: Farm) -> tuple[object, object]:
    job = await farm.one(max_retries=0)
    await farm.fail(job)
    return job.job_id, (await farm.opilio.insights.job(job.job_id)).policy_id


# ── reset goes by what the policy says now ───────────────────────────────────────────────────────


async def test_a_reset_job_follows_its_policy_to_another_host_and_queue(farm: Farm) -> None:
    job_id, policy_id = await failed_job(farm)
    await farm.opilio.policies.change(policy_id, PolicyPatch(url="https://other.example/", queue="js"))
    await farm.opilio.operator_actions.reset([job_id], "operator:ann")
    job = await farm.opilio.insights.job(job_id)
    assert (job.host, job.queue) == ("other.example", "js")
    assert [j.url for j in await farm.pull(queues=("js",))] == ["https://other.example/"]


async def test_a_reset_job_of_a_disabled_policy_waits(farm: Farm) -> None:
    job_id, policy_id = await failed_job(farm)
    await farm.opilio.policies.change(policy_id, PolicyPatch(enabled=False))
    await farm.opilio.operator_actions.reset([job_id], "operator:ann")
    assert await farm.pull() == []
    await farm.opilio.policies.change(policy_id, PolicyPatch(enabled=True))
    assert [j.job_id for j in await farm.pull()] == [job_id]


# ── strikes ──────────────────────────────────────────────────────────────────────────────────────


async def rate_limited(farm: Farm) -> timedelta:
    """How long the host cools after another 429."""
    job = await farm.one(max_retries=0)
    await farm.fail(job, error_code="RATE_LIMITED")
    until = await farm.value("select cooling_until from host")
    span: timedelta = until - farm.clock.at
    farm.later(seconds=span.total_seconds() + 1)
    return span


async def test_strikes_are_forgiven_after_a_while(farm: Farm) -> None:
    spans = [await rate_limited(farm) for _ in range(4)]
    assert spans == [timedelta(minutes=m) for m in (1, 2, 4, 8)]
    farm.later(hours=2)
    assert [await rate_limited(farm) for _ in range(2)] == [timedelta(minutes=1), timedelta(minutes=2)]


async def test_a_success_forgives_strikes(farm: Farm) -> None:
    for _ in range(3):
        await rate_limited(farm)
    said(await farm.submit(await farm.one()))
    assert await rate_limited(farm) == timedelta(minutes=1)


# ── jobs of hosts whose limits come and go ───────────────────────────────────────────────────────


async def test_a_job_that_is_free_and_behind_a_gate_is_one_job(farm: Farm) -> None:
    await farm.policies(1)
    await farm.opilio.hosts.set_limits("shop.example", Limits(5, None))
    await farm.due()
    await farm.opilio.hosts.set_limits("shop.example", Limits())
    await farm.rows("update host set gated = false")
    await farm.policy("https://shop.example/free", priority=90)
    await farm.due()
    places = {row["place"] for row in await farm.rows("select place from job_active")}
    assert places == {"free", "gated"}
    assert len(await farm.pull(most=2)) == 2


async def test_waiting_jobs_of_a_host_that_cools_are_skipped(farm: Farm) -> None:
    await farm.policies(6)
    await farm.due()
    (job,) = await farm.pull(most=1)
    await farm.fail(job, error_code="RATE_LIMITED", retry_after=600)
    answer = await farm.ask("bot-2")
    assert (answer.count, answer.skipped) == (0, 5)


# ── a client that leaves ─────────────────────────────────────────────────────────────────────────


async def test_jobs_of_a_bot_that_left_go_back_at_once(farm: Farm) -> None:
    """It leaves while its jobs are being locked."""
    await farm.policies(3)
    await farm.due()
    dispatcher, puller = farm.opilio.dispatcher, farm.opilio.puller
    locked, left = asyncio.Event(), asyncio.Event()
    pull_many = puller.pull_many

    async def slow(pulls: list[Pull]) -> object:
        answers = await pull_many(pulls)
        locked.set()
        await left.wait()
        return answers

    puller.pull_many = slow  # type: ignore[method-assign, assignment]
    waiting = asyncio.create_task(dispatcher.pull(Pull("bot-1", 3, ("http",)), wait_seconds=20))
    await asyncio.wait_for(locked.wait(), 10)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    left.set()
    while dispatcher._background or dispatcher._pulls[("http",), None]._busy:
        await asyncio.sleep(0)
    assert await farm.value("select count(*) from job_active where place = 'locked'") == 0
    puller.pull_many = pull_many  # type: ignore[method-assign]
    assert len(await farm.pull("bot-2")) == 3


async def test_on_shutdown_waiting_pulls_are_answered(farm: Farm) -> None:
    waiting = asyncio.create_task(farm.opilio.dispatcher.pull(Pull("bot-1", 1, ("http",)), wait_seconds=30))
    await asyncio.sleep(0)
    farm.opilio.dispatcher.stop_waiting()
    assert (await asyncio.wait_for(waiting, 10)).count == 0


# ── a cap for each bot ───────────────────────────────────────────────────────────────────────────


async def test_a_bot_locks_no_more_than_its_cap(farm_with: FarmMaker) -> None:
    farms = [farm_with(bot_max_locked=30) for _ in range(3)]
    first = farms[0]
    await first.policies(200)
    await first.due()
    pulls = [farm.ask("greedy", 10) for farm in farms for _ in range(4)]
    answers = await asyncio.gather(*pulls, *(farm.ask("modest", 5) for farm in farms))
    assert sum(answer.count for answer in answers[:12]) == 30
    assert [answer.count for answer in answers[12:]] == [5, 5, 5]
    await first.submit((await first.opilio.puller.pull(Pull("modest", 1, ("http",)))).jobs[0], "modest")
    await first.audit()


async def test_a_bot_at_its_cap_gets_more_when_it_submits(farm_with: FarmMaker) -> None:
    farm = farm_with(bot_max_locked=2)
    await farm.policies(5)
    await farm.due()
    jobs = await farm.pull(most=5)
    assert len(jobs) == 2
    assert await farm.pull(most=5) == []
    await farm.submit(jobs[0])
    assert len(await farm.pull(most=5)) == 1


async def test_why_says_that_every_bot_is_at_its_cap(farm_with: FarmMaker) -> None:
    farm = farm_with(bot_max_locked=1)
    first, second = await farm.policies(2)
    await farm.due()
    await farm.opilio.dispatcher.pull(Pull("bot-1", 2, ("http",)))
    waiting = await farm.value("select policy_id from job_active where place <> 'locked'")
    (reason,) = (await farm.opilio.insights.policy_why(waiting)).reasons
    assert (reason.code, reason.params["cap"]) == ("bot_at_cap", 1)
    await farm.opilio.dispatcher.pull(Pull("bot-2", 1, ("http",), "nowhere.example"))
    assert (await farm.opilio.insights.policy_why(waiting)).reasons == []
    assert {first, second} > {waiting}


# ── run now beside the scheduler ─────────────────────────────────────────────────────────────────


async def test_run_now_beside_the_scheduler_never_fails(farm_with: FarmMaker) -> None:
    farms = [farm_with(host_max_concurrent=2) for _ in range(3)]
    ids = [i for n in range(10) for i in await farms[0].policies(4, host=f"h{n}.example")]
    for _ in range(3):
        await asyncio.gather(
            *(farms[0].opilio.operator_actions.run_now(i, "operator:ann") for i in ids),
            farms[1].due(),
            *(farm.pull(f"bot-{n}", 20) for n, farm in enumerate(farms)),
        )
        farms[0].later(days=2)
        await farms[0].opilio.lock_expiry.run_once()
    assert await farms[0].value("select count(*) from job_active") == len(ids)
    await farms[0].audit()


# ── upkeep ───────────────────────────────────────────────────────────────────────────────────────


async def test_the_safety_net_checks_so_many_policies_a_time(farm: Farm) -> None:
    await farm.policies(5)
    scheduler = farm.opilio.scheduler
    scheduler._batch = 2
    await farm.rows("delete from policy_due")
    assert [await scheduler.repair() for _ in range(5)] == [2, 2, 1, 0, 0]


@pytest.mark.parametrize(("days", "left"), [(30, 1), (0, 5)])
async def test_the_value_history_is_pruned_by_age(farm_with: FarmMaker, days: int, left: int) -> None:
    farm = farm_with(keep_values_days=days)
    await farm.submit(await farm.one(), title="Lamp")
    for price in (5, 6):
        farm.later(days=2)
        await farm.due()
        await farm.submit(*await farm.pull(), price=price)
    assert await farm.value("select count(*) from value_change") == 5
    await farm.rows("update first_values set at = at - interval '40 days'")
    await farm.rows("update changed_value set at = at - interval '40 days' where new = '5'")
    await farm.opilio.retention.run()
    assert await farm.value("select count(*) from value_change") == left
