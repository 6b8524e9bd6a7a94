"""Due policies become jobs."""

import asyncio
from datetime import timedelta

from tests.crawl.farm import Farm, FarmMaker


async def test_it_works(farm: Farm) -> None:
    await farm.policy(priority=60, hot=True)
    made = await farm.opilio.scheduler.create_due()
    assert (made.created, made.due) == (1, 1)
    (row,) = await farm.rows("select * from crawl_job")
    assert (row["status"], row["priority"], row["queue"]) == ("pending", 80, "http")


async def test_again_makes_nothing(farm: Farm) -> None:
    await farm.policies(3)
    assert [await farm.due() for _ in range(3)] == [3, 0, 0]


async def test_not_before_its_time(farm: Farm) -> None:
    await farm.policy(next_run_at=farm.clock.at + timedelta(seconds=1))
    assert await farm.due() == 0
    farm.later(seconds=1)
    assert await farm.due() == 1


async def test_not_while_a_job_is_active(farm: Farm) -> None:
    job = await farm.one(frequency_hours=0.01)
    farm.later(hours=1)
    assert await farm.due() == 0
    assert (await farm.opilio.insights.job(job.job_id)).status == "locked"


async def test_not_when_disabled(farm: Farm) -> None:
    await farm.policy(enabled=False)
    assert await farm.due() == 0


async def test_more_than_a_batch(farm: Farm) -> None:
    await farm.policies(25)
    farm.opilio.scheduler._batch = 10
    made = await farm.opilio.scheduler.create_due()
    assert (made.created, made.due) == (25, 25)


async def test_schedulers_at_once_make_each_job_once(farm_with: FarmMaker) -> None:
    farms = [farm_with() for _ in range(4)]
    for farm in farms:
        farm.opilio.scheduler._batch = 50
    await farms[0].policies(400)
    made = await asyncio.gather(*(farm.due() for farm in farms))
    assert sum(made) == 400
    assert await farms[0].value("select count(*) from job_active") == 400
    await farms[0].audit()


async def test_the_longest_due_first(farm: Farm) -> None:
    for hours in (1, 3, 2):
        await farm.policy(f"https://shop.example/{hours}", next_run_at=farm.clock.at - timedelta(hours=hours))
    farm.opilio.scheduler._batch = 1
    await farm.due()
    assert [job.url[-1] for job in await farm.pull()] == ["3", "2", "1"]


async def test_a_policy_of_next_to_no_frequency_does_not_stop_the_others(farm: Farm) -> None:
    await farm.policy(frequency_hours=5e-324)
    await farm.rows("update policy_state set last_success_at = '1990-01-01'")
    await farm.policy()
    assert await farm.due() == 2


async def test_mending_puts_a_lost_policy_back(farm: Farm) -> None:
    await farm.policies(3)
    await farm.rows("delete from policy_due")
    assert await farm.opilio.scheduler.repair() == 3
    assert await farm.due() == 3
    assert await farm.opilio.scheduler.repair() == 0
