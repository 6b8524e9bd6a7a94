"""The SDK on a real broker: nothing is lost, a running crawl is finished, failures are tried again with a limit."""

import asyncio
from uuid import uuid4

import aio_pika
import msgspec
import pytest
from obstore.store import MemoryStore

from opilio.bus import Ack, Message, Unroutable
from opilio.contracts.topology import RESULTS, topology
from opilio.crawler import AmqpLink, Crawler, Item
from opilio.crawler.conformance import ConformanceCheck
from opilio.rabbitmq.bus import RabbitBus
from tests.collector.world import until
from tests.crawler.recording_link import a_task


@pytest.fixture
async def bus(rabbitmq_url):
    wanted = topology()
    bus = await RabbitBus.connect(rabbitmq_url, wanted)
    yield bus
    await bus.close()


@pytest.fixture
async def link(bus, rabbitmq_url):
    link = await AmqpLink.connect(rabbitmq_url)
    yield link
    await link.close()


async def send(bus: RabbitBus, task) -> None:
    await bus.publish("", "crawler.tiktok.queue", msgspec.json.encode(task), correlation_id=task.job_id)


async def test_what_no_queue_takes_is_not_lost(link):
    with pytest.raises(Unroutable):
        await link.publish(RESULTS, f"nobody.{uuid4().hex}", b"{}")


async def test_a_running_crawl_is_finished_when_the_crawler_stops(bus, link):
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def search(task):
        begun.set()
        await go_on.wait()
        yield Item(id="1", content={"text": "đẹp"})

    stop, results = asyncio.Event(), asyncio.Queue()

    async def take(message: Message) -> Ack:
        results.put_nowait(msgspec.json.decode(message.body))
        return Ack()

    await bus.consume("collector.results", take)
    work = asyncio.create_task(Crawler("tiktok", search, link, MemoryStore(), bucket="b").run(stop))
    await send(bus, a_task())
    await asyncio.wait_for(begun.wait(), 20)
    stop.set()
    await asyncio.sleep(0.2)
    assert not work.done()
    go_on.set()
    await asyncio.wait_for(work, 20)
    result = await asyncio.wait_for(results.get(), 20)
    assert (result["success"], result["stats"]["successful"]) == (True, 1)
    assert await bus.depth("crawler.tiktok.queue") == 0


async def test_a_failing_handler_is_called_again_later_and_not_at_once(bus, link):
    calls = []

    async def fails(message: Message) -> Ack:
        calls.append(message.retries)
        if len(calls) < 2:
            raise ValueError("not now")
        return Ack()

    consumer = await link.consume("crawler.tiktok.queue", fails)
    await send(bus, a_task())

    async def twice() -> bool:
        return len(calls) == 2

    await until(twice)
    assert calls == [0, 1]  # by way of its delay queue, counted
    await consumer.close()


async def test_the_trace_of_a_task_goes_on(bus, link):
    async def search(task):
        yield Item(id="1", content={"text": "đẹp"})

    traces = asyncio.Queue()

    async def take(message: Message) -> Ack:
        traces.put_nowait((message.routing_key, message.headers["x-trace-id"]))
        return Ack()

    await bus.consume("collector.results", take)
    await bus.consume("analytics.data.collected", take)
    stop = asyncio.Event()
    work = asyncio.create_task(Crawler("tiktok", search, link, MemoryStore(), bucket="b").run(stop))
    task = a_task()
    await bus.publish(
        "", "crawler.tiktok.queue", msgspec.json.encode(task), headers={"x-trace-id": "trace-of-the-request"}
    )
    got = {await asyncio.wait_for(traces.get(), 20) for _ in range(2)}
    assert got == {
        ("data.collected", "trace-of-the-request"),
        ("crawler.tiktok.result", "trace-of-the-request"),
    }
    stop.set()
    await work


async def test_the_kit_works_where_no_collector_ever_ran(own_rabbitmq):
    """An empty broker: the kit declares what it needs, and says that nobody answers."""
    check = ConformanceCheck(own_rabbitmq.url, "tiktok", store=MemoryStore(), timeout_seconds=1)
    violations = await check.run("iphone")
    assert {violation.rule for violation in violations} == {"answers"}
    async with await aio_pika.connect(own_rabbitmq.url) as connection:
        channel = await connection.channel()
        declared = await channel.declare_queue("crawler.tiktok.queue", passive=True)
        assert declared.declaration_result.message_count > 0  # its tasks wait for a crawler
