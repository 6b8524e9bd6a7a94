"""An operator wants a policy crawled at once."""

import asyncio
from datetime import timedelta
from uuid import UUID, uuid4

from tests.crawl.farm import Farm


async def run(farm: Farm, policy_id: UUID) -> UUID | None:
    return await farm.opilio.scheduling.run_now(policy_id, 80, "operator:ann")


async def test_it_works(farm: Farm) -> None:
    policy_id = await farm.policy(next_run_at=farm.clock.at + timedelta(days=3))
    assert await farm.due() == 0
    job_id = await run(farm, policy_id)
    (job,) = await farm.pull()
    assert (job.job_id, job.priority) == (job_id, 80)
    assert (await farm.opilio.insights.timeline(job.job_id))[0].by == "operator:ann"


async def test_an_active_job_is_answered(farm: Farm) -> None:
    job = await farm.one()
    policy_id = (await farm.opilio.insights.job(job.job_id)).policy_id
    assert await run(farm, policy_id) == job.job_id


async def test_no_such_policy(farm: Farm) -> None:
    assert await run(farm, uuid4()) is None


async def test_a_deleted_policy(farm: Farm) -> None:
    policy_id = await farm.policy()
    await farm.opilio.policies.delete([policy_id])
    assert await run(farm, policy_id) is None


async def test_many_at_once_make_one_job(farm: Farm) -> None:
    policy_id = await farm.policy()
    found = await asyncio.gather(*(run(farm, policy_id) for _ in range(6)), farm.due())
    assert len(set(found[:6])) == 1
    assert await farm.value("select count(*) from job_active") == 1


async def test_a_disabled_policy_runs_once(farm: Farm) -> None:
    policy_id = await farm.policy(enabled=False)
    await run(farm, policy_id)
    (job,) = await farm.pull()
    await farm.submit(job)
    farm.later(days=2)
    assert await farm.due() == 0


async def test_afterwards_the_policy_goes_on_as_usual(farm: Farm) -> None:
    policy_id = await farm.policy(next_run_at=farm.clock.at + timedelta(days=3))
    await run(farm, policy_id)
    (job,) = await farm.pull()
    await farm.submit(job)
    farm.later(hours=24)
    assert await farm.due() == 1
