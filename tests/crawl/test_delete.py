"""A policy is deleted."""

import asyncio
from uuid import uuid4

import pytest

from opilio.errors import NotFound
from tests.crawl.farm import Farm, FarmMaker, said


async def test_it_works(farm: Farm) -> None:
    policy_id = await farm.policy()
    assert await farm.opilio.policies.delete([policy_id]) == [policy_id]
    assert await farm.due() == 0
    with pytest.raises(NotFound):
        await farm.opilio.insights.policy(policy_id)


async def test_its_waiting_job_goes_along(farm: Farm) -> None:
    policy_id = await farm.policy()
    await farm.due()
    await farm.opilio.policies.delete([policy_id])
    assert await farm.pull() == []
    assert await farm.value("select count(*) from job_active") == 0


async def test_its_running_job_may_end(farm: Farm) -> None:
    job = await farm.one()
    await farm.opilio.policies.delete([(await farm.opilio.insights.job(job.job_id)).policy_id])
    assert said(await farm.submit(job))["status"] == "done"
    assert (
        await farm.opilio.insights.result(await farm.value("select result_id from stored_result"), print)
    ).url == job.url


async def test_a_released_job_does_not_come_back(farm: Farm) -> None:
    job = await farm.one()
    await farm.opilio.policies.delete([(await farm.opilio.insights.job(job.job_id)).policy_id])
    await farm.release(job)
    assert await farm.pull() == []
    await farm.opilio.scheduler.repair()
    assert await farm.value("select count(*) from job_active") == 0


async def test_its_url_is_free_again(farm: Farm) -> None:
    first = await farm.policy("https://shop.example/")
    await farm.opilio.policies.delete([first])
    second = await farm.policy("https://shop.example/")
    assert second != first


async def test_twice_and_unknown(farm: Farm) -> None:
    policy_id = await farm.policy()
    assert await farm.opilio.policies.delete([policy_id, uuid4()]) == [policy_id]
    assert await farm.opilio.policies.delete([policy_id]) == []


async def test_in_the_moment_its_job_is_made(farm_with: FarmMaker) -> None:
    one, two = farm_with(), farm_with()
    for _ in range(15):
        policy_id = await one.policy()
        await asyncio.gather(one.due(), two.opilio.policies.delete([policy_id]))
        await one.opilio.scheduler.repair()
        assert await one.pull() == []
        await one.audit()
