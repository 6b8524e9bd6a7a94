"""DONE means done: not before the last batch, not twice, and not never. Crawlers, analytics and collector at work."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from opilio.adapters.buckets import Buckets
from opilio.analytics.consume import BatchConsumer
from opilio.analytics.metrics import AnalyticsMetrics
from opilio.analytics.processing import BatchProcessor, ProcessingOptions
from opilio.analytics.store import BatchStore
from opilio.bus import Message
from opilio.contracts.collector import CrawlTask
from opilio.contracts.topology import COLLECTED_QUEUE, LIFECYCLE
from opilio.crawler import Crawler, Failed, Item
from tests.collector.samples import analyzed, v2
from tests.collector.world import QUICK, World, running, until

SOON = replace(
    QUICK,
    quiet=timedelta(seconds=0.5),
    quiet_if_exact=timedelta(seconds=0.5),
    analyze_timeout=timedelta(seconds=60),
)
QUICKLY = ProcessingOptions(tries=2, first_wait=timedelta(seconds=0.05))


class Whole(World):
    """A collector with analytics beside it and a store for batches."""

    blobs: str
    bucket: str = "crawl-data"

    def crawler(self, search: Any, platform: str = "tiktok") -> Crawler:
        return Crawler(platform, search, self.bus, Buckets(self.blobs).store(self.bucket), bucket=self.bucket)

    async def collected(self, **payload: Any) -> None:
        """An event as a crawler of somebody else's sends it."""
        body = {"event_id": str(uuid4()), "event_type": "data.collected", "payload": payload}
        await self.bus.publish(LIFECYCLE, "data.collected", msgspec.json.encode(body))


@asynccontextmanager
async def relaying(world: World) -> AsyncIterator[None]:
    """Hands analyze_results from the outbox to the bus."""

    async def publish() -> None:
        while True:
            rows = await world.rows(
                "delete from outbox where exchange is not null returning exchange, routing_key, data, correlation_id"
            )
            for row in rows:
                await world.bus.publish(
                    row["exchange"],
                    row["routing_key"],
                    msgspec.json.encode(row["data"]),
                    correlation_id=row["correlation_id"],
                )
            await asyncio.sleep(0.05)

    task = asyncio.create_task(publish())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture(params=["embedded", "real"])
async def whole(request, database, tmp_path, monkeypatch) -> AsyncIterator[Whole]:
    async with running(request.param, database, request, SOON) as world:
        world.__class__ = Whole
        world.blobs = f"file://{tmp_path}"
        if request.param == "real":
            server = request.getfixturevalue("s3")
            monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.access_key)
            monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret_key)
            world.bucket = server.bucket
            world.blobs = f"s3://{server.bucket}?endpoint={server.url}"
        store = BatchStore(database)
        await store.prepare_months(datetime.now(UTC))
        processor = BatchProcessor(store, Buckets(world.blobs), QUICKLY)
        consumer = BatchConsumer(processor, AnalyticsMetrics(CollectorRegistry()))
        await world.bus.consume(COLLECTED_QUEUE, consumer.handle, prefetch=1)
        async with relaying(world):
            yield world


async def a_task_of(world: World, **project: Any) -> tuple[CrawlTask, Message]:
    """A project of one task, as its crawler gets it."""
    await world.create(**{"brand_keywords": ["iphone"], "platforms": ["tiktok"], **project})
    await world.take_tasks("tiktok")
    _, message = await world.next_task()
    return msgspec.json.decode(message.body, type=CrawlTask), message


def searching(number: int, *, failing: int = 0, prefix: str = "post"):
    async def search(task: CrawlTask):
        for n in range(number):
            if failing and n % failing == 0:
                yield Failed(id=f"{prefix}{n}", code="CONTENT_REMOVED")
            else:
                yield Item(id=f"{prefix}{n}", content={"text": "Pin VF8 rất ổn"}, author={"id": "a"})

    return search


async def test_done_comes_after_the_last_batch_when_items_could_not_be_fetched(whole):
    """500 posts, a tenth of them gone: 450 are to be analysed, and they lie in ten batches, not nine."""
    _, message = await a_task_of(whole, limit_per_keyword=500)
    await whole.crawler(searching(500, failing=10)).handle(message)
    state = await whole.reaches(status="DONE", seconds=60)
    assert (state["items_actual"], state["items_errors"]) == (450, 50)
    assert (state["analyze_total"], state["analyze_done"], state["analyze_errors"]) == (450, 450, 0)
    [row] = await whole.rows(
        """select count(*) as batches, sum(success_count) as good, sum(error_count) as bad,
                  sum(fetch_error_count) as unfetched from analysed_batch"""
    )
    assert tuple(row.values()) == (10, 450, 0, 50)
    [posts] = await whole.rows("select count(*) filter (where fetch_status = 'success') from post_analytics")
    assert posts[0] == 450


async def test_a_crawl_that_was_redelivered_replaces_the_batches_of_the_one_that_crashed(whole):
    """The first run stores 50 and 30, and dies; the second finds 45: nothing is overwritten, nothing counted twice."""
    task, message = await a_task_of(whole, limit_per_keyword=100)
    await whole.crawler(searching(80, prefix="old")).crawl(task)  # its result is never sent

    async def analysed() -> bool:
        return (await whole.state())["analyze_done"] == 80

    await until(analysed)
    await whole.crawler(searching(45)).handle(message)
    state = await whole.reaches(status="DONE", seconds=60)
    assert (state["analyze_total"], state["analyze_done"], state["analyze_errors"]) == (45, 45, 0)


async def test_another_body_of_a_result_replaces_the_one_before(whole):
    await a_task_of(whole)
    for found in (48, 30):
        await whole.result(v2(found=found, attempt=None))
        await whole.reaches(items_actual=found, analyze_total=found, tasks_done=1)
    await whole.result(v2(found=48, attempt=None))  # seen before
    await whole.result(v2(found=0, success=False, code="BLOCKED", attempt=None))
    await whole.analyzed({**analyzed(1, 30, 0), "platform": "tiktok"})
    state = await whole.reaches(status="DONE")
    assert (state["items_actual"], state["tasks_done"], state["tasks_errors"]) == (30, 1, 0)
    await whole.result(v2(found=7, attempt=None))

    async def kept() -> list[Any]:
        return await whole.rows("select * from project_warning where kind = 'late_result'")

    await until(kept)
    assert await whole.state() == state


async def test_an_object_that_was_overwritten_is_analysed_again(whole):
    """A crawler of somebody else's uses one name for a batch, whatever it finds."""
    await a_task_of(whole)
    key, event = "tiktok/proj123/batch_001.json", {"job_id": "proj123-brand-0", "platform": "tiktok"}
    for number in (30, 45):
        items = [{"meta": {"id": f"p{n}"}, "content": {"text": "đẹp"}} for n in range(number)]
        await Buckets(whole.blobs).put(whole.bucket, key, msgspec.json.encode(items))
        await whole.collected(
            minio_path=f"{whole.bucket}/{key}",
            batch_index=1,
            content_count=number,
            project_id="proj123",
            **event,
        )
        await whole.reaches(analyze_done=number)
    await whole.result(v2(found=45, failed=0))
    assert (await whole.reaches(status="DONE"))["analyze_done"] == 45


@pytest.mark.parametrize("path", ["", "/", "bucket", "a/../b", "minio://", None])
async def test_an_invalid_path_is_a_dead_letter_and_the_project_ends(whole, path):
    await a_task_of(whole)
    await whole.result(v2(found=20))
    await whole.collected(
        minio_path=path, job_id="proj123-brand-0", platform="tiktok", content_count=22, fetch_error_count=2
    )
    state = await whole.reaches(status="DONE")
    assert (state["analyze_total"], state["analyze_errors"]) == (20, 20)
    [(reason, _)] = await whole.dead_letters("analytics.data.collected.dlq")
    assert "bad_path" in reason


async def test_batches_without_a_number_are_distinguished_by_their_path(whole):
    await a_task_of(whole)
    for name in ("one", "two"):
        items = [{"meta": {"id": f"{name}{n}"}, "content": {"text": "đẹp"}} for n in range(10)]
        await Buckets(whole.blobs).put(whole.bucket, f"tiktok/{name}.json", msgspec.json.encode(items))
        await whole.collected(
            minio_path=f"{whole.bucket}/tiktok/{name}.json", job_id="proj123-brand-0", content_count=10
        )
    await whole.result(v2(found=20))
    assert (await whole.reaches(status="DONE"))["analyze_done"] == 20


async def test_a_truncated_batch_of_unknown_size_is_what_its_task_owes(whole):
    await a_task_of(whole)
    items = [{"meta": {"id": f"p{n}"}, "content": {"text": "đẹp"}} for n in range(20)]
    whole_body = gzip.compress(msgspec.json.encode(items))
    buckets = Buckets(whole.blobs)
    await buckets.put(whole.bucket, "tiktok/1.json.gz", whole_body)
    await buckets.put(whole.bucket, "tiktok/2.json.gz", gzip.compress(b"")[:10])
    for number in (1, 2):
        await whole.collected(
            minio_path=f"{whole.bucket}/tiktok/{number}.json.gz", job_id="proj123-brand-0", batch_index=number
        )
    await whole.result(v2(found=50))
    state = await whole.reaches(status="DONE")
    assert (state["analyze_done"], state["analyze_errors"]) == (20, 30)
    [(reason, _)] = await whole.dead_letters("analytics.data.collected.dlq")
    assert "truncated" in reason


async def test_two_platforms_of_an_analytics_that_names_none(whole):
    """The message of the contract has no platform: one name for two batches must not keep the project open."""
    await whole.create(brand_keywords=["iphone"])
    for platform in ("tiktok", "youtube"):
        await whole.result(v2(platform=platform, found=50), f"crawler.{platform}.result")
    await whole.reaches(tasks_done=2)
    for _ in range(2):
        await whole.analyzed(analyzed(1, 50, 0))
    state = await whole.reaches(status="DONE")
    assert (state["analyze_total"], state["analyze_done"]) == (100, 100)


@pytest.mark.parametrize("sizes", [(50, 20), (20, 50)])
async def test_batches_of_one_name_that_differ_in_size(whole, sizes):
    """50 of TikTok and 20 of YouTube, the usual sizes: the second is another platform's, not a newer body."""
    await whole.create(brand_keywords=["iphone", "samsung"])
    for job_id in ("proj123-brand-0", "proj123-brand-1"):
        for platform, found in (("tiktok", 50), ("youtube", 20)):
            await whole.result(v2(job_id, platform, found=found), f"crawler.{platform}.result")
    await whole.reaches(tasks_done=4)
    for job_id in ("proj123-brand-0", "proj123-brand-1"):
        for size in sizes:
            await whole.analyzed({**analyzed(1, size - 1, 1), "job_id": f"{job_id}-analyze-batch-1"})
    state = await whole.reaches(status="DONE")
    assert (state["analyze_total"], state["analyze_done"], state["analyze_errors"]) == (140, 136, 4)


async def test_a_message_that_comes_three_times_without_a_platform_counts_once(whole):
    await whole.create(brand_keywords=["iphone"])
    for platform in ("tiktok", "youtube"):
        await whole.result(v2(platform=platform, found=50), f"crawler.{platform}.result")
    for _ in range(3):
        await whole.analyzed(analyzed(1, 48, 2))
    for batch in (analyzed(2, 30, 0), analyzed(3, 20, 0)):
        await whole.analyzed(batch)
    state = await whole.reaches(status="DONE")
    assert (state["analyze_done"], state["analyze_errors"]) == (98, 2)
