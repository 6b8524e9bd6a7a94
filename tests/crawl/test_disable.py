"""A policy is switched off and on."""

import asyncio
from datetime import timedelta
from uuid import UUID

from opilio.contracts.policies import PolicyPatch
from tests.crawl.farm import Farm, FarmMaker, said


async def switch(farm: Farm, policy_id: UUID, *, on: bool) -> None:
    await farm.opilio.policies.change(policy_id, PolicyPatch(enabled=on))


async def test_it_works(farm: Farm) -> None:
    policy_id = await farm.policy()
    await switch(farm, policy_id, on=False)
    assert await farm.due() == 0
    await switch(farm, policy_id, on=True)
    assert await farm.due() == 1


async def test_a_waiting_job_waits(farm: Farm) -> None:
    policy_id = await farm.policy()
    await farm.due()
    await switch(farm, policy_id, on=False)
    assert await farm.pull() == []
    farm.later(days=300)
    assert await farm.pull() == []
    await switch(farm, policy_id, on=True)
    assert len(await farm.pull()) == 1


async def test_a_running_job_may_end(farm: Farm) -> None:
    job = await farm.one()
    policy_id = (await farm.opilio.insights.job(job.job_id)).policy_id
    await switch(farm, policy_id, on=False)
    assert said(await farm.submit(job))["status"] == "done"
    farm.later(days=2)
    assert await farm.due() == 0
    await switch(farm, policy_id, on=True)
    assert await farm.due() == 1


async def test_a_running_job_that_fails_waits(farm: Farm) -> None:
    job = await farm.one()
    policy_id = (await farm.opilio.insights.job(job.job_id)).policy_id
    await switch(farm, policy_id, on=False)
    await farm.fail(job)
    farm.later(days=1)
    assert await farm.pull() == []
    await switch(farm, policy_id, on=True)
    (again,) = await farm.pull()
    assert again.retry_count == 1


async def test_switching_on_twice_changes_nothing(farm: Farm) -> None:
    job = await farm.one()
    policy_id = (await farm.opilio.insights.job(job.job_id)).policy_id
    await switch(farm, policy_id, on=True)
    assert await farm.due() == 0
    assert said(await farm.submit(job))["status"] == "done"


async def test_on_in_the_moment_the_job_ends(farm_with: FarmMaker) -> None:
    """Neither sees the other's work; the policy must not fall between them."""
    one, two = farm_with(), farm_with()
    for _ in range(15):
        job = await one.one()
        policy_id = (await one.opilio.insights.job(job.job_id)).policy_id
        await switch(one, policy_id, on=False)
        await asyncio.gather(one.submit(job), switch(two, policy_id, on=True))
        await one.audit()
        await one.opilio.policies.delete([policy_id])


async def test_off_in_the_moment_the_job_is_made(farm_with: FarmMaker) -> None:
    one, two = farm_with(), farm_with()
    for _ in range(15):
        policy_id = await one.policy()
        await asyncio.gather(one.due(), switch(two, policy_id, on=False))
        await one.opilio.scheduler.repair()
        assert await one.pull() == []
        await one.audit()
        await one.opilio.policies.delete([policy_id])


async def test_next_run_at_can_be_moved(farm: Farm) -> None:
    policy_id = await farm.policy()
    await farm.opilio.policies.change(policy_id, PolicyPatch(next_run_at=farm.clock.at + timedelta(hours=3)))
    assert await farm.due() == 0
    farm.later(hours=3)
    assert await farm.due() == 1


async def test_limited_hosts_too(farm_with: FarmMaker) -> None:
    farm = farm_with(host_max_concurrent=5)
    policy_id = await farm.policy()
    await farm.due()
    await switch(farm, policy_id, on=False)
    assert await farm.pull() == []
    await switch(farm, policy_id, on=True)
    assert len(await farm.pull()) == 1
    await farm.audit()
