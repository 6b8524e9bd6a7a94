"""An operator wants a policy crawled at once."""

import asyncio
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from opilio import audit
from opilio.errors import NotFound
from tests.crawl.farm import Farm


async def run(farm: Farm, policy_id: UUID) -> UUID:
    return await farm.opilio.operator_actions.run_now(policy_id, "operator:ann")


async def test_it_works(farm: Farm) -> None:
    policy_id = await farm.policy(next_run_at=farm.clock.at + timedelta(days=3), hot=True)
    assert await farm.due() == 0
    job_id = await run(farm, policy_id)
    (job,) = await farm.pull()
    assert (job.job_id, job.priority) == (job_id, 70), "the rule engine adds 20 for a hot policy"
    assert (await farm.opilio.insights.timeline(job.job_id))[0].by == "operator:ann"


async def test_an_active_job_is_answered(farm: Farm) -> None:
    job = await farm.one()
    policy_id = (await farm.opilio.insights.job(job.job_id)).policy_id
    assert await run(farm, policy_id) == job.job_id


async def test_a_job_that_waits_for_its_retry_waits_no_longer(farm: Farm) -> None:
    job = await farm.one()
    await farm.fail(job)
    assert await farm.pull() == []
    policy_id = (await farm.opilio.insights.job(job.job_id)).policy_id
    assert await run(farm, policy_id) == job.job_id
    (again,) = await farm.pull()
    assert again.job_id == job.job_id
    assert (await farm.opilio.insights.job(job.job_id)).retry_count == 1
    await farm.audit()


async def test_a_cooling_host_is_not_hurried(farm: Farm) -> None:
    job = await farm.one()
    await farm.fail(job, error_code="RATE_LIMITED", retry_after=600)
    policy_id = (await farm.opilio.insights.job(job.job_id)).policy_id
    await run(farm, policy_id)
    assert await farm.pull() == []
    farm.later(seconds=600)
    assert len(await farm.pull()) == 1


async def test_no_such_policy(farm: Farm) -> None:
    with pytest.raises(NotFound):
        await run(farm, uuid4())


async def test_a_deleted_policy(farm: Farm) -> None:
    policy_id = await farm.policy()
    await farm.opilio.policies.delete([policy_id])
    with pytest.raises(NotFound):
        await run(farm, policy_id)


async def test_it_is_audited(farm: Farm) -> None:
    policy_id = await farm.policy()
    await run(farm, policy_id)
    newest, *_ = await audit.entries(farm.database, None, 10)
    assert (newest["actor"], newest["action"], newest["subject"]) == (
        "operator:ann",
        "policy.run",
        str(policy_id),
    )


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
