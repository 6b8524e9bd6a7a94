"""Why is this not being crawled now?"""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from opilio.contracts.management import Reason
from opilio.contracts.policies import PolicyPatch
from opilio.crawl.politeness import Limits
from opilio.errors import NotFound
from tests.crawl.farm import Farm


@pytest.fixture
async def seen(farm: Farm) -> Farm:
    """A bot for plain pages asked for work a moment ago."""
    await farm.rows("insert into bot (bot_id, last_seen_at, capabilities) values ('bot-1', now(), '{http}')")
    return farm


async def why(farm: Farm, policy_id: UUID) -> dict[str, Reason]:
    answer = await farm.opilio.insights.policy_why(policy_id)
    assert not answer.running
    return {reason.code: reason for reason in answer.reasons}


async def test_it_works(seen: Farm) -> None:
    policy_id = await seen.policy(next_run_at=seen.clock.at + timedelta(hours=2))
    reasons = await why(seen, policy_id)
    assert list(reasons) == ["not_due"]
    assert reasons["not_due"].until == seen.clock.at + timedelta(hours=2)


async def test_any_moment(seen: Farm) -> None:
    policy_id = await seen.policy()
    assert await why(seen, policy_id) == {}
    await seen.due()
    assert await why(seen, policy_id) == {}


async def test_it_runs(seen: Farm) -> None:
    job = await seen.one()
    answer = await seen.opilio.insights.job_why(job.job_id)
    assert answer.running
    assert [(reason.code, reason.until) for reason in answer.reasons] == [("locked", job.locked_until)]


async def test_disabled(seen: Farm) -> None:
    policy_id = await seen.policy()
    await seen.opilio.policies.change(policy_id, PolicyPatch(enabled=False))
    assert list(await why(seen, policy_id)) == ["disabled"]


async def test_disabled_with_a_waiting_job(seen: Farm) -> None:
    policy_id = await seen.policy()
    await seen.due()
    await seen.opilio.policies.change(policy_id, PolicyPatch(enabled=False))
    assert list(await why(seen, policy_id)) == ["disabled"]


async def test_waiting_for_a_retry(seen: Farm) -> None:
    job = await seen.one()
    await seen.fail(job)
    reasons = await why(seen, (await seen.opilio.insights.job(job.job_id)).policy_id)
    assert list(reasons) == ["waiting_retry"]
    assert reasons["waiting_retry"].until == seen.clock.at + timedelta(minutes=5)
    assert "retry 1 of 3" in reasons["waiting_retry"].message


async def test_the_host_cools(seen: Farm) -> None:
    await seen.policies(2)
    await seen.due()
    (job,) = await seen.pull(most=1)
    await seen.fail(job, error_code="RATE_LIMITED", retry_after=3600)
    other = await seen.value("select policy_id from job_active where job_id <> $1", job.job_id)
    reasons = await why(seen, other)
    assert list(reasons) == ["host_cooling"]
    assert reasons["host_cooling"].until == seen.clock.at + timedelta(hours=1)
    assert "RATE_LIMITED" in reasons["host_cooling"].message


async def test_the_host_is_at_its_cap(seen: Farm) -> None:
    await seen.policies(2)
    await seen.opilio.hosts.set_limits("shop.example", Limits(1, None))
    await seen.due()
    (job,) = await seen.pull()
    other = await seen.value("select policy_id from job_active where job_id <> $1", job.job_id)
    assert list(await why(seen, other)) == ["host_at_cap"]


async def test_the_host_is_in_its_pause(seen: Farm) -> None:
    await seen.policies(2)
    await seen.opilio.hosts.set_limits("shop.example", Limits(None, 3600))
    await seen.due()
    (job,) = await seen.pull()
    other = await seen.value("select policy_id from job_active where job_id <> $1", job.job_id)
    assert list(await why(seen, other)) == ["host_cooling"]


async def test_no_bot_ever(farm: Farm) -> None:
    reasons = await why(farm, await farm.policy())
    assert list(reasons) == ["no_capable_bot"]
    assert "ever" in reasons["no_capable_bot"].message


async def test_no_bot_that_can(seen: Farm) -> None:
    assert list(await why(seen, await seen.policy(queue="js"))) == ["no_capable_bot"]


async def test_no_bot_for_long(seen: Farm) -> None:
    await seen.rows("update bot set last_seen_at = now() - interval '5 minutes'")
    reasons = await why(seen, await seen.policy())
    assert "5 min" in reasons["no_capable_bot"].message


async def test_all_reasons_at_once(farm: Farm) -> None:
    policy_id = await farm.policy(next_run_at=farm.clock.at + timedelta(hours=2), enabled=False)
    assert set(await why(farm, policy_id)) == {"disabled", "not_due", "no_capable_bot"}


async def test_a_job_that_ended_answers_for_its_policy(seen: Farm) -> None:
    job = await seen.one()
    await seen.submit(job)
    answer = await seen.opilio.insights.job_why(job.job_id)
    assert [reason.code for reason in answer.reasons] == ["not_due"]


async def test_nothing_that_exists(farm: Farm) -> None:
    with pytest.raises(NotFound):
        await farm.opilio.insights.policy_why(uuid4())
    with pytest.raises(NotFound):
        await farm.opilio.insights.job_why(uuid4())
