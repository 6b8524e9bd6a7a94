"""The example of the contract's §8: two keywords, two platforms, every state on the way, one DONE."""

import asyncio
import json
import random
import signal
import sys
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from opilio.bus import Outgoing
from opilio.collector.collector import open_projects
from opilio.collector.config import Config
from opilio.contracts.projects import ProjectInput
from opilio.contracts.topology import RESULTS, topology
from opilio.delivery.progress import ProgressReports, ProgressThrottle
from opilio.delivery.webhooks.client import WebhookClient
from opilio.delivery.webhooks.sender import Sender
from opilio.errors import Unavailable
from opilio.net.allowed_addresses import parse_allow
from opilio.rabbitmq.bus import RabbitBus
from tests.collector.samples import analyzed, encoded, v2
from tests.collector.world import QUICK, clean_redis, running, until
from tests.delivery.receiver import Receiver

ANYWHERE = parse_allow("true")
CRAWLED = [
    (v2("proj123-brand-0", "tiktok", found=50, failed=2), (1, 48, 2)),
    (v2("proj123-brand-1", "tiktok", found=30), (2, 78, 2)),
    (v2("proj123-brand-0", "youtube", found=50), (3, 128, 2)),
    (v2("proj123-brand-1", "youtube", found=50, failed=5), (4, 173, 7)),
]
ANALYZED = [
    (analyzed(1, 48, 2), (48, 2)),
    (analyzed(2, 50, 0), (98, 2)),
    (analyzed(3, 50, 0), (148, 2)),
    (analyzed(4, 23, 0), (171, 2)),
]
FINAL = {
    "status": "DONE", "tasks_total": 4, "tasks_done": 4, "tasks_errors": 0,
    "items_expected": 200, "items_actual": 173, "items_errors": 7,
    "analyze_total": 173, "analyze_done": 171, "analyze_errors": 2,
    "crawl_total": 4, "crawl_done": 173, "crawl_errors": 7,
}  # fmt: skip


@asynccontextmanager
async def webhooks(database):
    """Delivery at work, and an application that receives."""
    async with Receiver() as app, WebhookClient(ANYWHERE) as client:
        works = [
            asyncio.create_task(ProgressThrottle(database).loop().run()),
            asyncio.create_task(Sender(database, client).run()),
        ]
        yield app
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)


async def bodies_until_done(app: Receiver) -> list[dict]:
    async def done() -> bool:
        return any(b'"DONE"' in got.body for got in app.got)

    await until(done, 40)
    return [json.loads(got.body) for got in app.got]


def assert_in_order_and_done_once(bodies: list[dict]) -> None:
    assert [body["status"] for body in bodies] == ["PROCESSING"] * (len(bodies) - 1) + ["DONE"]
    for before, after in pairwise(bodies):
        for figure in ("done", "errors"):
            assert before["crawl"]["tasks"][figure] <= after["crawl"]["tasks"][figure]
            assert before["analyze"][figure] <= after["analyze"][figure]


@pytest.mark.parametrize("kind", ["embedded", "real"])
async def test_the_example_state_by_state(kind, request, database):
    report = ProgressReports(allow=ANYWHERE).report
    async with webhooks(database) as app, running(kind, database, request, QUICK, report) as world:
        await world.project_created(
            {"project_id": "proj123", "brand_keywords": ["iphone", "samsung"], "webhook_url": app.url()}
        )
        await world.take_tasks()
        tasks = [(await world.next_task())[0] for _ in range(4)]
        assert {(t["platform"], t["job_id"], t["keywords"][0], t["limit"]) for t in tasks} == {
            (platform, f"proj123-brand-{n}", keyword, 50)
            for platform in ("tiktok", "youtube")
            for n, keyword in enumerate(["iphone", "samsung"])
        }
        await world.reaches(status="PROCESSING", tasks_total=4, items_expected=200, analyze_total=0)
        for body, (done, actual, errors) in CRAWLED:
            await world.result(body, f"crawler.{body['platform']}.result")
            await world.reaches(tasks_done=done, items_actual=actual, items_errors=errors, analyze_total=actual,
                                crawl_done=actual, crawl_errors=errors, status="PROCESSING")  # fmt: skip
        for body, (done, errors) in ANALYZED:
            await world.analyzed(body)
            await world.reaches(analyze_done=done, analyze_errors=errors)
        assert await world.state() == FINAL
        bodies = await bodies_until_done(app)
        assert_in_order_and_done_once(bodies)
        completed_at = bodies[-1].pop("completed_at")
        assert completed_at.endswith("Z")
        assert bodies[-1] == {
            "project_id": "proj123",
            "status": "DONE",
            "overall_progress_percent": 100,
            "crawl": {
                "tasks": {"total": 4, "done": 4, "errors": 0, "percent": 100},
                "items": {"expected": 200, "actual": 173, "errors": 7, "percent": 86.5},
            },
            "analyze": {"total": 173, "done": 171, "errors": 2, "percent": 98.84},
        }
        if kind == "real":
            redis = world.collector.state._redis
            assert await redis.hgetall("opilio:project:proj123") == {k: str(v) for k, v in FINAL.items()}


class Victim:
    """A collector process that is killed without warning and started again."""

    def __init__(self, *urls: str) -> None:
        self._urls = urls
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "collector.process", *self._urls,
            cwd=Path(__file__).parents[1], stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        async with asyncio.timeout(60):
            assert await self._process.stdout.readline() == b"ready\n"

    async def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        await self._process.wait()


async def publish_whatever_happens(bus: RabbitBus, message: Outgoing) -> None:
    """A publisher that was not confirmed publishes again: one more duplicate."""
    while True:
        try:
            await bus.publish_many([message])
        except Unavailable:
            await asyncio.sleep(0.1)
        else:
            return


async def test_the_example_three_times_in_any_order_with_kills_and_a_broker_that_restarts(
    database, database_url, rabbitmq, rabbitmq_url, redis_url
):
    chance = random.Random(20260115)
    await clean_redis(redis_url)
    bus = await RabbitBus.connect(rabbitmq_url, topology())
    victim = Victim(database_url, rabbitmq_url, redis_url)
    projects = open_projects(database, Config(), redis_url)
    messages = [
        Outgoing(RESULTS, f"crawler.{body['platform']}.result", encoded(body)) for body, _ in CRAWLED
    ] + [Outgoing(RESULTS, "analytics.result", encoded(body)) for body, _ in ANALYZED]
    arriving = messages * 3
    chance.shuffle(arriving)
    killed_after, restarted_after = {2, 7, 13, 19}, 10
    async with webhooks(database) as app:
        project = ProjectInput(
            project_id="proj123", brand_keywords=["iphone", "samsung"], webhook_url=app.url()
        )
        await projects.create(project, by="test")
        await victim.start()
        for number, message in enumerate(arriving):
            await publish_whatever_happens(bus, message)
            await asyncio.sleep(chance.random() * 0.05)  # so that death finds it at another point each time
            if number == restarted_after:
                await asyncio.to_thread(rabbitmq.stop)
                await asyncio.to_thread(rabbitmq.start)
            if number in killed_after:
                await victim.kill()
                await victim.start()
        try:

            async def final() -> bool:
                return (await bus.depth("collector.results")) == 0 and (
                    await projects.state("proj123")
                ).status == "DONE"

            await until(final, 60)
            state = await projects.state("proj123")
            assert {name: getattr(state, name) for name in state.__struct_fields__} == FINAL
            bodies = await bodies_until_done(app)
            await asyncio.sleep(1.5)  # longer than the pace of progress: a second DONE would come now
            assert len({got.id for got in app.got if b'"DONE"' in got.body}) == 1
            assert_in_order_and_done_once(bodies)
            assert await bus.depth("collector.results.dlq") == 0
        finally:
            await victim.kill()
            await bus.close()
            await projects.close()
