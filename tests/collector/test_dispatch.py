"""Projects and requests in, tasks out."""

from uuid import uuid4

import pytest

from opilio.contracts.projects import ProjectInput
from opilio.errors import Conflict, Invalid
from tests.collector.world import until


async def test_a_project_becomes_tasks(world):
    await world.take_tasks()
    await world.create(time_range=7)
    got = [await world.next_task() for _ in range(4)]
    assert sorted((body["platform"], body["job_id"], body["keywords"][0]) for body, _ in got) == [
        ("tiktok", "proj123-brand-0", "iphone"),
        ("tiktok", "proj123-brand-1", "samsung"),
        ("youtube", "proj123-brand-0", "iphone"),
        ("youtube", "proj123-brand-1", "samsung"),
    ]
    body, message = next(g for g in got if g[0]["platform"] == "tiktok" and g[0]["keywords"] == ["iphone"])
    assert body == {
        "job_id": "proj123-brand-0", "platform": "tiktok", "task_type": "research_and_crawl",
        "keywords": ["iphone"], "limit": 50, "time_range": 7, "payload": {"count": 50, "publish_time": 7},
        "attempt": 1, "max_attempts": 3, "emitted_at": body["emitted_at"],
    }  # fmt: skip
    assert message.correlation_id == "proj123-brand-0"
    headers = {
        name: message.headers.get(name)
        for name in ("x-job-id", "x-platform", "x-attempt", "x-schema-version")
    }
    assert headers == {
        "x-job-id": "proj123-brand-0",
        "x-platform": "tiktok",
        "x-attempt": 1,
        "x-schema-version": 1,
    }
    assert message.headers["x-trace-id"]
    assert "retry" not in message.headers
    state = await world.reaches(status="PROCESSING", tasks_total=4, items_expected=200, crawl_total=4)
    assert state["analyze_total"] == 0


async def test_project_created_does_the_same_and_again_changes_nothing(world):
    await world.take_tasks()
    payload = {
        "project_id": "p",
        "brand_name": "VinFast",
        "brand_keywords": ["VF8"],
        "competitor_keywords": {"tesla": ["model y"], "byd": ["atto 3"]},
        "platforms": ["youtube"],
        "limit_per_keyword": 20,
        "created_by": "another service's field",
    }
    for _ in range(3):
        await world.project_created(payload)
    jobs = [(await world.next_task())[0] for _ in range(3)]
    assert [(job["job_id"], job["keywords"], job["limit"]) for job in jobs] == [
        ("p-brand-0", ["VF8"], 20),
        ("p-competitor-0", ["model y"], 20),
        ("p-competitor-1", ["atto 3"], 20),
    ]
    await world.reaches("p", status="PROCESSING", tasks_total=3, items_expected=60)
    assert world.tasks.empty()
    assert [row["sent"] for row in await world.rows("select sent_at is not null as sent from task")] == [
        True
    ] * 3


async def test_the_same_project_again_is_no_error_another_one_is(world):
    await world.create()
    await world.create()
    with pytest.raises(Conflict):
        await world.create(brand_keywords=["other"])
    assert len(await world.rows("select 1 from task")) == 4


async def test_a_project_without_an_id_gets_one(world):
    project_id = await world.collector.projects.create(ProjectInput(brand_keywords=["x"]), by="test")
    assert (await world.state(project_id))["tasks_total"] == 2


async def test_a_webhook_that_may_not_be_reached_is_refused(world):
    def refuse(url: str) -> None:
        raise Invalid("webhook_url", "private")

    world.collector.dispatch._check_url = refuse
    with pytest.raises(Invalid):
        await world.create(webhook_url="http://10.0.0.1/")
    assert await world.rows("select 1 from project") == []


async def test_a_request_goes_to_every_platform_once(world):
    await world.take_tasks()
    job_id = str(uuid4())
    request = {
        "job_id": job_id,
        "task_type": "dryrun_keyword",
        "payload": {"keywords": ["iphone"], "limit": 3},
    }
    for _ in range(2):
        await world.inbound(request)
    got = [(await world.next_task())[0] for _ in range(2)]
    assert sorted((task["platform"], task["job_id"], task["limit"]) for task in got) == [
        ("tiktok", job_id, 3),
        ("youtube", job_id, 3),
    ]

    async def settled() -> bool:
        return (
            len(await world.rows("select 1 from task where project_id is null and sent_at is not null")) == 2
        )

    await until(settled)
    assert world.tasks.empty()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\xff\xfe", "cannot be decoded"),
        (b"{}", "job_id"),
        ({"job_id": "j", "task_type": "steal"}, "task_type"),
        ({"job_id": "j", "task_type": "crawl_links", "payload": {"limit": -1}}, "payload.limit"),
        ({"event_type": "project.created", "payload": {"project_id": "p"}}, "brand_keywords"),
        (
            {"event_type": "project.created", "payload": {"project_id": "a b", "brand_keywords": ["x"]}},
            "project_id",
        ),
        ({"event_type": "project.deleted", "payload": {}}, "event_type"),
    ],
)
async def test_what_cannot_be_dispatched_is_kept_with_its_reason(world, body, reason):
    await world.inbound(body)
    [(told, kept)] = await world.dead_letters("collector.inbound.dlq")
    assert reason in told
    assert not isinstance(body, bytes) or kept == body
    assert await world.rows("select 1 from task") == []
