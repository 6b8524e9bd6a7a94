"""What an operator does to jobs by hand."""

import asyncio
from uuid import UUID, uuid4

import pytest

from opilio.crawl.operator_actions import ActionResult
from tests.crawl.farm import Farm, refused, said


async def act(farm: Farm, action: str, *job_ids: UUID) -> list[ActionResult]:
    return await farm.opilio.operator_actions.apply(action, job_ids, "operator:ann")


async def failed_job(farm: Farm) -> UUID:
    job = await farm.one(max_retries=0)
    await farm.fail(job, error_msg="x")
    return job.job_id


async def test_it_works(farm: Farm) -> None:
    job_id = await failed_job(farm)
    (done,) = await act(farm, "reset", job_id)
    assert (done.job_id, done.status, done.refusal) == (job_id, "pending", None)
    (job,) = await farm.pull()
    assert (job.job_id, job.retry_count) == (job_id, 0)
    assert await farm.walk(job_id) == ["pending", "locked", "failed", "pending", "locked"]
    assert said(await farm.submit(job))["status"] == "done"


async def test_a_locked_job_starts_afresh(farm: Farm) -> None:
    job = await farm.one()
    await farm.fail(job)
    farm.later(minutes=5)
    (job,) = await farm.pull()
    assert (await act(farm, "reset", job.job_id))[0].status == "pending"
    assert refused(await farm.submit(job)) == "lock_expired"
    (again,) = await farm.pull("bot-2")
    assert (again.retry_count, again.priority) == (0, 50)


async def test_an_expired_job(farm: Farm) -> None:
    job = await farm.one(max_retries=0)
    farm.later(seconds=601)
    await farm.opilio.lock_expiry.run_once()
    assert (await act(farm, "reset", job.job_id))[0].status == "pending"
    assert refused(await farm.submit(job)) == "lock_expired"


@pytest.mark.parametrize("action", ["reset", "expire", "release"])
async def test_done_is_final(farm: Farm, action: str) -> None:
    job = await farm.one()
    await farm.submit(job)
    (done,) = await act(farm, action, job.job_id)
    assert done.refusal is not None
    assert done.refusal.code == "invalid_state"


@pytest.mark.parametrize("action", ["reset", "expire", "release"])
async def test_a_pending_job_has_no_lock_to_end(farm: Farm, action: str) -> None:
    await farm.policy()
    await farm.due()
    job_id = await farm.value("select job_id from job_active")
    (done,) = await act(farm, action, job_id)
    assert done.refusal is not None
    assert done.refusal.code == "invalid_state"


async def test_no_such_job(farm: Farm) -> None:
    (done,) = await act(farm, "reset", uuid4())
    assert done.refusal is not None
    assert done.refusal.code == "job_not_found"


async def test_the_policy_is_busy(farm: Farm) -> None:
    job_id = await failed_job(farm)
    farm.later(minutes=6)
    assert await farm.due() == 1
    (done,) = await act(farm, "reset", job_id)
    assert done.refusal is not None
    assert "active job" in done.refusal.message


async def test_the_policy_is_gone(farm: Farm) -> None:
    job_id = await failed_job(farm)
    await farm.opilio.policies.delete([(await farm.opilio.insights.job(job_id)).policy_id])
    (done,) = await act(farm, "reset", job_id)
    assert done.refusal is not None


async def test_two_jobs_of_one_policy(farm: Farm) -> None:
    """Each id is answered on its own: the first comes back, the second finds its policy busy."""
    one = await failed_job(farm)
    farm.later(minutes=6)
    await farm.due()
    (job,) = await farm.pull()
    await farm.fail(job, error_msg="y")
    first, second, again = await act(farm, "reset", one, job.job_id, one)
    assert first.status == "pending"
    assert second.refusal is not None
    assert second.refusal.code == "invalid_state"
    assert again == first


async def test_an_operator_and_the_scheduler_at_once(farm: Farm) -> None:
    for _ in range(10):
        job_id = await failed_job(farm)
        farm.later(days=1)
        (done,), _ = await asyncio.gather(act(farm, "reset", job_id), farm.opilio.scheduler.create_due())
        assert (done.status == "pending") is not (done.refusal is not None)
        await farm.audit()
        await farm.opilio.policies.delete([(await farm.opilio.insights.job(job_id)).policy_id])


async def test_force_expire_follows_the_road_of_the_ttl(farm: Farm) -> None:
    job = await farm.one(max_retries=1)
    assert (await act(farm, "expire", job.job_id))[0].status == "pending"
    assert refused(await farm.submit(job)) == "lock_expired"
    farm.later(minutes=5)
    (job,) = await farm.pull()
    assert job.retry_count == 1
    assert (await act(farm, "expire", job.job_id))[0].status == "expired"
    assert await farm.walk(job.job_id) == ["pending", "locked", "expired", "pending", "locked", "expired"]


async def test_release_by_hand(farm: Farm) -> None:
    job = await farm.one()
    assert (await act(farm, "release", job.job_id))[0].status == "pending"
    last = (await farm.opilio.insights.timeline(job.job_id))[-1]
    assert (last.by, last.reason) == ("operator:ann", "lock released by hand")
    (again,) = await farm.pull("bot-2")
    assert again.retry_count == 0


async def test_some_of_many(farm: Farm) -> None:
    await farm.policies(3)
    await farm.due()
    jobs = await farm.pull(most=2)
    pending = await farm.value("select job_id from job_active where place <> 'locked'")
    done = await act(farm, "release", jobs[0].job_id, pending, jobs[1].job_id)
    assert [d.status for d in done] == ["pending", None, "pending"]
