"""Locks that ran out."""

import asyncio
from datetime import timedelta

from tests.crawl.farm import Farm


async def test_it_works(farm: Farm) -> None:
    job = await farm.one()
    farm.later(seconds=600)
    swept = await farm.opilio.lock_expiry.run_once()
    assert (swept.retried, swept.ended) == (1, 0)
    shown = await farm.opilio.insights.job(job.job_id)
    assert (shown.status, shown.retry_count, shown.priority) == ("pending", 1, 45)
    assert shown.run_at == farm.clock.at + timedelta(minutes=5)
    assert await farm.walk(job.job_id) == ["pending", "locked", "expired", "pending"]


async def test_a_living_lock_is_left_alone(farm: Farm) -> None:
    await farm.one()
    farm.later(seconds=599)
    assert (await farm.opilio.lock_expiry.run_once()).total == 0


async def test_with_no_retries_left_it_is_final(farm: Farm) -> None:
    job = await farm.one(max_retries=0)
    farm.later(seconds=600)
    swept = await farm.opilio.lock_expiry.run_once()
    assert (swept.retried, swept.ended) == (0, 1)
    assert (await farm.opilio.insights.job(job.job_id)).status == "expired"
    (event,) = await farm.rows("select * from event_log")
    assert (event["type"], event["data"]["reason"]) == ("crawl.job.failed", "expired")
    assert event["data"]["bot_id"] == "bot-1"
    (policy,) = await farm.rows("select * from crawl_policy")
    assert policy["failure_count"] == 1
    assert policy["next_run_at"] == farm.clock.at + timedelta(minutes=5)


async def test_a_sweep_is_bounded(farm: Farm) -> None:
    await farm.policies(10)
    await farm.due()
    await farm.pull()
    farm.later(seconds=600)
    assert [(await farm.opilio.lock_expiry.run_once(most=4)).total for _ in range(4)] == [4, 4, 2, 0]


async def test_sweepers_at_once_share_the_work(farm: Farm) -> None:
    await farm.policies(60)
    await farm.due()
    await farm.pull(most=60)
    farm.later(seconds=600)
    sweeps = await asyncio.gather(*(farm.opilio.lock_expiry.run_once(most=25) for _ in range(6)))
    rest = await farm.opilio.lock_expiry.run_once()
    assert sum(sweep.total for sweep in sweeps) + rest.total == 60
    assert await farm.value("select count(*) from job_step where to_state = 'expired'") == 60


async def test_every_bot_is_visited(farm: Farm) -> None:
    """Bots whose locks live, bots without locks, and bots whose names sort in any order."""
    await farm.policies(12)
    await farm.due()
    early = [job.job_id for bot in ("zoe", "Åsa", "bot-1") for job in await farm.pull(bot, most=2)]
    farm.later(seconds=300)
    for bot in ("anna", "mia", "zoe"):
        await farm.pull(bot, most=2)
    farm.later(seconds=300)
    assert (await farm.opilio.lock_expiry.run_once()).total == 6
    expired = await farm.rows("select job_id from job_step where to_state = 'expired'")
    assert {row["job_id"] for row in expired} == set(early)
    farm.later(seconds=300)
    assert [(await farm.opilio.lock_expiry.run_once(most=4)).total for _ in range(3)] == [4, 2, 0]
