"""Time-outs of tasks, tasks in flight, and an analysis that stalls."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from opilio.bus import Ack, Message
from opilio.contracts.projects import ProjectInput
from opilio.errors import Conflict
from opilio.insights.projects import ProjectInsights
from tests.collector.samples import analyzed, v2
from tests.collector.world import QUICK, running, until

BOTH = pytest.mark.parametrize("kind", ["embedded", "real"])
IMPATIENT = replace(QUICK, task_timeout=timedelta(seconds=0.5), max_attempts=1)


@BOTH
async def test_a_task_that_waits_in_its_queue_does_not_time_out(kind, request, database):
    """A backlog is no failure: the clock starts when the queue was seen empty."""
    async with running(kind, database, request, IMPATIENT) as world:
        await world.create(brand_keywords=["iphone"], platforms=["tiktok"])
        await world.reaches(status="PROCESSING")
        await asyncio.sleep(2)  # four time-outs in the queue
        assert (await world.state())["tasks_errors"] == 0
        await world.take_tasks("tiktok")
        await world.next_task()  # a crawler that took it and is never heard of again
        await world.reaches(status="DONE", tasks_errors=1)


@BOTH
async def test_a_task_behind_which_another_was_answered_has_left_its_queue(kind, request, database):
    """Also where the queue is never empty, a task that a crawler lost is found."""
    async with running(kind, database, request, replace(IMPATIENT, tasks_in_flight=5)) as world:
        await world.create(
            brand_keywords=["lost", "answered", "held", "waiting", "waiting too"], platforms=["tiktok"]
        )
        got: list[Message] = []
        two, end = asyncio.Event(), asyncio.Event()

        async def take(message: Message) -> Ack:
            got.append(message)
            if len(got) == 2:
                two.set()
            if len(got) > 2:
                await end.wait()
            return Ack()

        await world.bus.consume("crawler.tiktok.queue", take, prefetch=1)
        try:
            await asyncio.wait_for(two.wait(), 20)
            await world.result(v2(got[1].correlation_id, found=0))
            await world.reaches(tasks_errors=1, tasks_done=1)
            await asyncio.sleep(1)  # two time-outs: those behind it wait, and are no failures
            assert (await world.state())["tasks_errors"] == 1
        finally:
            end.set()


@BOTH
async def test_no_more_tasks_are_out_than_may_be_in_flight(kind, request, database):
    async with running(kind, database, request, replace(QUICK, tasks_in_flight=3)) as world:
        await world.create(brand_keywords=[f"k{n}" for n in range(8)], platforms=["tiktok"])
        await world.take_tasks("tiktok")
        for _ in range(8):
            task, _ = await world.next_task()
            [row] = await world.rows("select count(*) from task where state = 'open' and sent_at is not null")
            assert row[0] <= 3
            await world.result(v2(task["job_id"], found=0))
        await world.reaches(status="DONE", tasks_done=8)


@pytest.fixture(params=["embedded", "real"])
async def stalled(request, database):
    """A project whose crawl is complete and whose analysis never comes."""
    quick = replace(QUICK, analyze_timeout=timedelta(seconds=0.5))
    async with running(request.param, database, request, quick) as world:
        await world.create(brand_keywords=["iphone", "samsung"], platforms=["tiktok"])
        await world.result(v2(found=50))
        await world.result(v2("proj123-brand-1", found=30))
        await world.analyzed({**analyzed(1, 20, 0), "platform": "tiktok"})
        await world.reaches(tasks_done=2, analyze_done=20)
        yield world


async def test_an_analysis_that_stalls_is_reported_once(stalled, database):
    async def told():
        return await stalled.rows("select subject, data from event_log where type = 'project.stalled'")

    [event] = await until(told)
    data = event["data"]
    assert (event["subject"], data["analyze_total"], data["analyze_done"]) == ("proj123", 80, 20)
    assert [(job["job_id"], job["missing"]) for job in data["waiting_for"]] == [
        ("proj123-brand-0", 30),
        ("proj123-brand-1", 30),
    ]
    project = await ProjectInsights(database).project("proj123")
    assert project.stalled_at
    assert [(job.keyword, job.missing) for job in project.waiting_for] == [("iphone", 30), ("samsung", 30)]
    assert "analysis_stalled" in [warning.kind for warning in project.warnings]
    await asyncio.sleep(1)
    assert len(await told()) == 1


async def test_an_operator_can_close_it(stalled):
    projects = stalled.collector.projects
    assert await projects.close_project("proj123", by="operator:an") == 60
    state = await stalled.reaches(status="DONE")
    assert (state["analyze_done"], state["analyze_errors"]) == (20, 60)
    assert await projects.close_project("proj123", by="operator:an") == 0
    [row] = await stalled.rows("select actor, details from audit_log where action = 'project.close'")
    assert (row["actor"], row["details"]) == ("operator:an", {"analyze_errors": 60})
    await stalled.analyzed({**analyzed(2, 30, 0), "platform": "tiktok"})  # kept, and changes nothing

    async def kept():
        return await stalled.rows("select 1 from batch_result where success_count = 30 and not counted")

    await until(kept)
    assert await stalled.state() == state


async def test_a_project_with_open_tasks_is_not_closed(stalled):
    await stalled.collector.projects.create(ProjectInput(project_id="p2", brand_keywords=["x"]), by="test")
    with pytest.raises(Conflict, match="2 tasks of p2 are still open"):
        await stalled.collector.projects.close_project("p2", by="operator:an")
