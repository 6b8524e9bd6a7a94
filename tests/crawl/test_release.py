"""A bot gives jobs back unharmed."""

from tests.crawl.farm import Farm, held, refused, said


async def test_it_works(farm: Farm) -> None:
    job = await farm.one()
    assert said(await farm.release(job)) == {"status": "pending"}
    (again,) = await farm.pull("bot-2")
    assert again.job_id == job.job_id
    assert (again.retry_count, again.priority) == (0, 50)


async def test_retries_that_were_spent_stay_spent(farm: Farm) -> None:
    job = await farm.one()
    await farm.fail(job)
    farm.later(minutes=5)
    (job,) = await farm.pull()
    await farm.release(job)
    (again,) = await farm.pull()
    assert (again.retry_count, again.priority) == (1, 45)


async def test_twice_is_the_same_answer(farm: Farm) -> None:
    job = await farm.one()
    await farm.release(job)
    assert said(await farm.release(job)) == {"status": "pending"}
    await farm.pull("bot-2")
    assert said(await farm.release(job)) == {"status": "pending"}
    assert await farm.value("select locked_by from job_active") == "bot-2"


async def test_twice_in_one_list(farm: Farm) -> None:
    job = await farm.one()
    answers = await farm.opilio.heartbeats.release([held(job), held(job)])
    assert [said(answer) for answer in answers] == [{"status": "pending"}] * 2
    assert await farm.walk(job.job_id) == ["pending", "locked", "pending"]


async def test_a_foreign_lock(farm: Farm) -> None:
    job = await farm.one("bot-1")
    assert refused(await farm.release(job, "bot-2")) == "not_assigned"


async def test_after_the_ttl(farm: Farm) -> None:
    job = await farm.one()
    farm.later(seconds=601)
    assert refused(await farm.release(job)) == "lock_expired"


async def test_a_result_after_the_release(farm: Farm) -> None:
    job = await farm.one()
    await farm.release(job)
    assert refused(await farm.submit(job)) == "invalid_state"
    await farm.pull("bot-2")
    assert refused(await farm.submit(job)) == "lock_expired"
    assert await farm.value("select count(*) from late_result") == 1


async def test_the_timeline_names_the_actor(farm: Farm) -> None:
    job = await farm.one("bot-7")
    await farm.release(job, "bot-7")
    last = (await farm.opilio.insights.timeline(job.job_id))[-1]
    assert (last.from_, last.to, last.by, last.reason) == (
        "locked",
        "pending",
        "bot:bot-7",
        "released by the bot",
    )
