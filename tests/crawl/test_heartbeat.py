"""A bot needs longer."""

from datetime import timedelta

from opilio.crawl.job import MAX_EXTENSION
from tests.crawl.farm import Farm, held, refused, said


async def test_it_works(farm: Farm) -> None:
    job = await farm.one()
    farm.later(seconds=500)
    answer = said(await farm.beat(job))
    assert answer["locked_until"] == (farm.clock.at + timedelta(seconds=600)).isoformat().replace(
        "+00:00", "Z"
    )
    farm.later(seconds=550)
    assert said(await farm.submit(job))["status"] == "done", "the token stays the same"


async def test_ten_times_the_ttl_at_most(farm: Farm) -> None:
    job = await farm.one()
    start = farm.clock.at
    for _ in range(12):
        farm.later(seconds=550)
        answer = await farm.beat(job)
        if answer.refusal:
            break
        until = await farm.value("select locked_until from job_active")
        ttl = timedelta(seconds=600)
        assert until == min(farm.clock.at + ttl, start + MAX_EXTENSION * ttl)
    assert farm.clock.at - start >= MAX_EXTENSION * timedelta(seconds=600)
    assert refused(answer) == "lock_expired"


async def test_a_beat_never_shortens_a_lock(farm: Farm) -> None:
    job = await farm.one()
    farm.later(seconds=-300)
    said(await farm.beat(job))
    assert await farm.value("select locked_until from job_active") == job.locked_until


async def test_after_the_ttl(farm: Farm) -> None:
    job = await farm.one()
    farm.later(seconds=600)
    assert refused(await farm.beat(job)) == "lock_expired"
    assert await farm.value("select count(*) from late_result") == 0, "there is nothing to keep"


async def test_a_foreign_lock(farm: Farm) -> None:
    job = await farm.one("bot-1")
    assert refused(await farm.beat(job, "bot-2")) == "not_assigned"


async def test_a_superseded_token(farm: Farm) -> None:
    old = await farm.one("bot-1")
    await farm.release(old)
    (new,) = await farm.pull("bot-1")
    assert new.job_id == old.job_id
    assert refused(await farm.beat(old)) == "lock_expired"
    said(await farm.beat(new))


async def test_a_finished_job(farm: Farm) -> None:
    job = await farm.one()
    await farm.submit(job)
    assert refused(await farm.beat(job)) == "invalid_state"


async def test_each_job_is_answered_on_its_own(farm: Farm) -> None:
    await farm.policies(2)
    await farm.due()
    one, two = await farm.pull()
    answers = await farm.opilio.heartbeats.heartbeat([held(one), held(two, "bot-2"), held(one)])
    assert "locked_until" in said(answers[0])
    assert refused(answers[1]) == "not_assigned"
    assert said(answers[2]) == said(answers[0])
