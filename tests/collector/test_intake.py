"""Results in: counted, tried again, or kept aside with the reason."""

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest

from tests.collector.samples import analyzed, item, v2
from tests.collector.world import QUICK, running, until


@pytest.fixture
async def project(world):
    """One keyword on two platforms."""
    await world.create(brand_keywords=["iphone"])
    await world.reaches(status="PROCESSING")
    return world


async def test_a_result_counts_once(project):
    for _ in range(3):
        await project.result(v2(found=50, failed=2))
    await project.reaches(tasks_done=1, items_actual=48, items_errors=2, analyze_total=48, crawl_done=48)
    await project.result(v2(found=30, platform="youtube"))
    state = await project.reaches(tasks_done=2, items_actual=78, analyze_total=78, status="PROCESSING")
    assert state["tasks_errors"] == 0


async def test_the_three_formats_and_their_attribution(world):
    await world.create(brand_keywords=["a", "b", "c"], platforms=["tiktok"])
    await world.result({"success": True, "task_type": "x", "payload": [item()] * 3})  # old, by its first item
    await world.reaches(tasks_done=1, items_actual=3)
    flat = {"job_id": "proj123-brand-1", "task_type": "x", "status": "success", "metrics": {"successful": 4}}
    await world.result(flat)  # by its routing key
    await world.reaches(tasks_done=2, items_actual=7)
    empty = v2(found=0, root=False)
    await world.result(empty, headers={"x-job-id": "proj123-brand-2", "x-platform": "tiktok"})
    await world.reaches(tasks_done=3, items_actual=7)


async def test_a_failure_is_tried_again_and_counts_only_in_the_end(project):
    await project.take_tasks("tiktok")
    await project.next_task()
    for attempt in (1, 2):
        for _ in range(2):
            await project.result(v2(found=0, success=False, code="RATE_LIMITED", attempt=attempt))
        task, message = await project.next_task()
        assert (task["attempt"], task["job_id"]) == (attempt + 1, "proj123-brand-0")
        assert (message.headers["retry"], message.headers["x-attempt"]) == (True, attempt + 1)
    assert (await project.state())["tasks_errors"] == 0
    await project.result(v2(found=0, success=False, code="RATE_LIMITED", attempt=3))
    await project.reaches(tasks_errors=1, tasks_done=0)
    assert project.tasks.empty()
    [task] = await project.rows("select * from task where platform = 'tiktok'")
    assert (task["state"], task["error_code"]) == ("failed", "RATE_LIMITED")


async def test_a_failure_for_good_is_not_tried_again(project):
    await project.result(v2(found=0, success=False, code="AUTH_FAILED"))
    await project.reaches(tasks_errors=1)
    await project.result(
        v2(found=9, successful=5, failed=4, success=False, code="CRAWL_PARTIAL", platform="youtube")
    )
    await project.reaches(tasks_errors=2, items_actual=5, items_errors=4, analyze_total=5)


async def test_a_retry_waits_in_its_delay_queue(request, database):
    slow = replace(QUICK, backoff_by_platform={"tiktok": timedelta(seconds=300)})
    async with running("real", database, request, slow) as world:
        await world.create(brand_keywords=["iphone"])
        await world.result(v2(found=0, success=False, code="TIMEOUT"))

        async def waits() -> bool:
            return await world.bus.depth("crawler.tiktok.retry.300") == 1

        await until(waits)


async def test_pages_of_a_task_add_up_and_end_it_once(project):
    for cursor in ("1", "2", "1", "2"):
        await project.result(v2(found=20, cursor=cursor))
    state = await project.reaches(items_actual=40)
    assert state["tasks_done"] == 1

    async def added() -> bool:
        return [
            row["successful"]
            for row in await project.rows("select successful from task where state = 'done'")
        ] == [40]

    await until(added)


async def test_analyses_count_and_end_the_project(project):
    await project.analyzed(analyzed(1, 40, 8))
    await project.result(v2(found=50, failed=2))
    await project.result(v2(found=0, platform="youtube"))
    await project.reaches(status="DONE", analyze_total=48, analyze_done=40, analyze_errors=8)
    done = await project.state()
    await project.analyzed(analyzed(1, 40, 8))
    await project.analyzed({**analyzed(2, 1, 0), "batch_size": 9})

    async def kept() -> list[object]:
        return await project.rows("select 1 from batch_result where not counted and success_count = 1")

    await until(kept)
    assert await project.state() == done


async def test_a_dry_run_is_settled_and_counts_nowhere(world):
    job_id = str(uuid4())
    await world.inbound({"job_id": job_id, "task_type": "dryrun_keyword", "payload": {"keywords": ["x"]}})

    async def sent() -> bool:
        return len(await world.rows("select 1 from task where sent_at is not null")) == 2

    await until(sent)
    await world.result(v2(job_id, found=3))

    async def done() -> bool:
        return len(await world.rows("select 1 from task where state = 'done' and successful = 3")) == 1

    await until(done)


async def test_warnings_are_kept_once(project):
    odd = v2(found=30)
    odd["stats"]["completion_rate"] = 0.1
    for _ in range(2):
        await project.result(odd)
    await project.reaches(tasks_done=1, items_actual=30)
    rows = await project.rows("select kind, message from project_warning order by kind")
    assert [row["kind"] for row in rows] == [
        "contract:completion_rate",
        "contract:payload_length",
        "platform_limited",
    ]
    assert rows[2]["message"] == "the platform has only 30 of the 50 requested"


@pytest.mark.parametrize("kind", ["embedded", "real"])
async def test_strict_contracts_keep_a_broken_result_aside(kind, request, database):
    async with running(kind, database, request, replace(QUICK, strict_contracts=True)) as world:
        await world.create(brand_keywords=["iphone"])
        await world.result(v2(found=30))  # says 30 items, carries none
        [(reason, _)] = await world.dead_letters("collector.results.dlq")
        assert reason == "breaks the contract: payload_length"
        await world.result(v2(found=30, items=True))
        await world.reaches(tasks_done=1, items_actual=30)


@pytest.mark.parametrize(
    ("body", "key", "reason"),
    [
        (b"not json", "crawler.tiktok.result", "cannot be decoded"),
        (v2(root=False), "crawler.tiktok.result", "no job_id"),
        (v2("proj123-brand-7"), "crawler.tiktok.result", "no task proj123-brand-7"),
        (v2(platform="myspace"), "crawler.tiktok.result", "was sent to myspace"),
        (analyzed(1, 1, 0, "nobody"), "analytics.result", "there is no project nobody"),
        ({**analyzed(1, 1, 0), "task_type": "analyze"}, "analytics.result", "task_type"),
        ({**analyzed(1, 1, 0), "success_count": -1}, "analytics.result", "cannot be decoded"),
    ],
)
async def test_what_cannot_be_counted_is_kept_with_its_reason(project, body, key, reason):
    before = await project.state()
    await project.result(body, key)
    [(told, kept)] = await project.dead_letters("collector.results.dlq")
    assert reason in told
    assert not isinstance(body, bytes) or kept == body
    assert await project.state() == before


@pytest.mark.parametrize("kind", ["embedded", "real"])
async def test_a_crawler_that_never_answers_is_answered_for(kind, request, database):
    quick = replace(
        QUICK, task_timeout=timedelta(seconds=0.5), max_attempts=2, backoff=timedelta(seconds=0.1)
    )
    async with running(kind, database, request, quick) as world:
        await world.take_tasks("tiktok")
        await world.create(brand_keywords=["iphone"], platforms=["tiktok"])
        await world.reaches(status="DONE", tasks_errors=1, tasks_done=0)
        [task] = await world.rows("select * from task")
        assert (task["attempt"], task["error_code"], task["state"]) == (2, "TIMEOUT", "failed")
        done = await world.state()
        await world.result(v2(found=4, attempt=2))  # too late: the project is done, and stays as it is

        async def kept() -> list[object]:
            return await world.rows("select 1 from project_warning where kind = 'late_result'")

        await until(kept)
        assert await world.state() == done


async def test_progress_is_reported_in_order_and_done_once_and_last(project):
    await project.rows("update project set webhook_url = 'http://app.example/progress'")
    await project.result(v2(found=50, failed=2))
    await project.reaches(tasks_done=1)
    await project.result(v2(found=0, platform="youtube"))
    await project.analyzed(analyzed(1, 48, 0))
    await project.reaches(status="DONE")

    async def told_final() -> bool:
        return any(report["final"] for report in project.told)

    await until(told_final)
    versions = [report["version"] for report in project.told]
    assert versions == sorted(versions)
    assert [report["final"] for report in project.told] == [False] * (len(versions) - 1) + [True]
    assert b'"overall_progress_percent":100.0' in project.told[-1]["body"]
    assert b"completed_at" in project.told[-1]["body"]

    async def finished() -> list[object]:
        return await project.rows(
            "select snapshot from project where status = 'DONE' and finished_at is not null"
        )

    [row] = await until(finished)
    assert row["snapshot"]["analyze_done"] == 48
