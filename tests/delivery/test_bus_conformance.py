"""What a bus promises, written once and run on both: RabbitMQ and the tables of PostgreSQL."""

import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest

from opilio.adapters.local_bus import LocalBus
from opilio.bus import Ack, Bus, DeadLetter, Message, Outgoing, Retry, Unroutable
from opilio.contracts.topology import Binding, Exchange, Queue, Topology
from opilio.rabbitmq.bus import RabbitBus


def a_topology() -> Topology:
    """Names of its own, so that tests share a broker without meeting."""
    tag = uuid4().hex[:8]
    return Topology(
        exchanges=(Exchange(f"x.{tag}", ""), Exchange("opilio.dead-letters", "")),
        queues=(
            Queue(
                f"q.{tag}.queue",
                "",
                (Binding(f"x.{tag}", "a.*.c"), Binding(f"x.{tag}", "#.tail")),
                parking=("legacy",),
            ),
            Queue(f"other.{tag}", "", (Binding(f"x.{tag}", "a.#"),)),
            Queue(f"dead.{tag}", "", (Binding("opilio.dead-letters", f"q.{tag}.#"),), dead_letters=False),
        ),
    )


class Bench:
    """A bus, and a way to wait for what its consumers get."""

    def __init__(self, bus: Bus, topology: Topology, reopen) -> None:
        self.bus = bus
        self.topology = topology
        self.reopen = reopen
        self.exchange = topology.exchanges[0].name
        self.queue, self.other, self.dead = (queue.name for queue in topology.queues)
        self.got: asyncio.Queue[Message] = asyncio.Queue()

    async def send(self, body: bytes = b"{}", key: str = "a.b.c", **more) -> None:
        await self.bus.publish(self.exchange, key, body, **more)

    async def next(self, seconds: float = 15) -> Message:
        async with asyncio.timeout(seconds):
            return await self.got.get()

    def answering(self, verdict):
        async def handle(message: Message):
            self.got.put_nowait(message)
            return verdict(message) if callable(verdict) else verdict

        return handle


@pytest.fixture(params=["rabbitmq", "local"])
async def bench(request, db):
    topology = a_topology()
    if request.param == "rabbitmq":
        url = request.getfixturevalue("rabbitmq_url")

        async def reopen() -> Bus:
            return await RabbitBus.connect(url, topology)
    else:

        async def reopen() -> Bus:
            return await LocalBus.connect(db, topology, lease=timedelta(seconds=2))

    bus = await reopen()
    yield Bench(bus, topology, reopen)
    await bus.close()


async def test_it_carries_a_message_whole(bench):
    await bench.send(
        b'{"price": 1.10}', message_id="m1", correlation_id="job-1", headers={"x-platform": "tiktok"}
    )
    await bench.bus.consume(bench.queue, bench.answering(Ack()))
    message = await bench.next()
    assert message.body == b'{"price": 1.10}'
    assert (message.message_id, message.correlation_id) == ("m1", "job-1")
    assert (message.exchange, message.routing_key, message.queue) == (bench.exchange, "a.b.c", bench.queue)
    assert message.headers["x-platform"] == "tiktok"
    assert message.headers["x-schema-version"] == 1
    assert len(message.headers["x-trace-id"]) == 32
    assert (message.deliveries, message.retries) == (1, 0)


async def test_a_topic_goes_to_every_queue_bound_for_it_once(bench):
    await bench.send(key="a.b.tail")
    await bench.send(key="tail")
    await bench.bus.consume(bench.queue, bench.answering(Ack()), prefetch=5)
    await bench.bus.consume(bench.other, bench.answering(Ack()), prefetch=5)
    got = [await bench.next() for _ in range(3)]
    assert sorted((m.queue, m.routing_key) for m in got) == sorted(
        [(bench.queue, "a.b.tail"), (bench.queue, "tail"), (bench.other, "a.b.tail")]
    )


async def test_what_no_queue_is_bound_for_is_refused(bench):
    with pytest.raises(Unroutable):
        await bench.send(key="nobody.listens")
    answers = await bench.bus.publish_many(
        [Outgoing(bench.exchange, "a.b.c", b"1"), Outgoing(bench.exchange, "nobody", b"2")]
    )
    assert [type(answer) for answer in answers] == [type(None), Unroutable]


async def test_messages_come_in_the_order_of_publication(bench):
    await bench.bus.publish_many(
        [Outgoing(bench.exchange, "a.b.c", str(number).encode()) for number in range(100)]
    )
    await bench.bus.consume(bench.queue, bench.answering(Ack()), prefetch=1)
    assert [int((await bench.next()).body) for _ in range(100)] == list(range(100))


async def test_no_more_than_prefetch_are_handled_at_once(bench):
    await bench.bus.publish_many([Outgoing(bench.exchange, "a.b.c", b"{}") for _ in range(12)])
    at_once, most, done = 0, 0, asyncio.Semaphore(0)

    async def handle(_message: Message):
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.02)
        at_once -= 1
        done.release()
        return Ack()

    await bench.bus.consume(bench.queue, handle, prefetch=3)
    async with asyncio.timeout(15):
        for _ in range(12):
            await done.acquire()
    assert most == 3


async def test_a_retry_comes_back_later_and_says_so(bench):
    def once(message: Message):
        return Ack() if message.retries else Retry(timedelta(seconds=0.4), "not yet")

    await bench.send(b"original", message_id="m1", headers={"x-platform": "youtube"})
    await bench.bus.consume(bench.queue, bench.answering(once))
    first = await bench.next()
    loop = asyncio.get_running_loop()
    then = loop.time()
    second = await bench.next()
    assert loop.time() - then >= 0.35
    assert second.body == b"original"
    assert (second.message_id, second.exchange, second.routing_key) == ("m1", bench.exchange, "a.b.c")
    assert second.headers["retry"] is True
    assert second.headers["x-reason"] == "not yet"
    assert (second.headers["x-platform"], second.headers["x-trace-id"]) == (
        "youtube",
        first.headers["x-trace-id"],
    )
    assert second.retries == 1


async def test_a_message_can_be_published_with_a_delay(bench):
    await bench.bus.publish("", bench.queue, b"task", after=timedelta(seconds=0.3))
    await bench.bus.consume(bench.queue, bench.answering(Ack()))
    assert (await bench.next()).body == b"task"


async def test_a_handler_that_raises_is_asked_again(bench):
    def fail_once(message: Message):
        if not message.retries:
            raise ValueError("broken")
        return Ack()

    await bench.send()
    await bench.bus.consume(bench.queue, bench.answering(fail_once))
    await bench.next()
    assert (await bench.next()).headers["x-reason"] == "ValueError: broken"


async def test_what_a_dead_consumer_held_is_handed_out_again(bench):
    started = asyncio.Event()

    async def never(_message: Message):
        started.set()
        await asyncio.Event().wait()

    await bench.send(b"survivor")
    other = await bench.reopen()
    await other.consume(bench.queue, never)
    async with asyncio.timeout(10):
        await started.wait()
    await abandon(other)
    await bench.bus.consume(bench.queue, bench.answering(Ack()))
    message = await bench.next()
    assert message.body == b"survivor"
    assert message.deliveries == 2


async def test_a_message_that_kills_its_consumers_becomes_a_dead_letter(bench):
    await bench.send(b"poison")

    async def never(_message: Message):
        started.set()
        await asyncio.Event().wait()

    for _ in range(2):
        started = asyncio.Event()
        other = await bench.reopen()
        await other.consume(bench.queue, never)
        async with asyncio.timeout(10):
            await started.wait()
        await abandon(other)
    await bench.bus.consume(bench.queue, bench.answering(Ack()), delivery_limit=2)
    async with asyncio.timeout(10):
        while await bench.bus.depth(bench.queue):
            await asyncio.sleep(0.05)
    assert bench.got.empty()


async def abandon(bus: Bus) -> None:
    """As kill -9 would leave it: nothing settled, nothing said."""
    if isinstance(bus, RabbitBus):
        for consumer in bus._consumers:
            consumer._running.cancel()
        await bus._connection.close()
        return
    for consumer in bus._consumers:
        for task in [*consumer._tasks, *consumer._handling.values()]:
            task.cancel()
        consumer._settle = None
    await bus._listener.close()


async def test_rabbitmq_keeps_dead_letters_in_their_queue(db, rabbitmq_url):
    topology = a_topology()
    bus = await RabbitBus.connect(rabbitmq_url, topology)
    bench = Bench(bus, topology, None)
    await bench.send(b"\xff not json", message_id="m1")
    await bus.consume(bench.queue, bench.answering(DeadLetter("unreadable")))
    await bench.next()
    copies: asyncio.Queue[Message] = asyncio.Queue()

    async def copy(message: Message):
        copies.put_nowait(message)
        return Ack()

    await bus.consume(bench.dead, copy)
    async with asyncio.timeout(10):
        dead = await copies.get()
    assert (dead.body, dead.headers["x-reason"]) == (b"\xff not json", "unreadable")
    kept = topology.queue(bench.queue).dead_letter_queue
    assert await bus.depth(kept) == 1
    assert await bus.remove(kept, [dead.headers["x-dead-letter-id"]])
    assert await bus.depth(kept) == 0
    await bus.close()


async def test_the_local_bus_keeps_dead_letters_in_their_table(db):
    topology = a_topology()
    bus = await LocalBus.connect(db, topology)
    bench = Bench(bus, topology, None)
    await bench.send(b"\xff not json", message_id="m1", headers={"x-platform": "tiktok"})
    consumer = await bus.consume(bench.queue, bench.answering(DeadLetter("unreadable")))
    await bench.next()
    await consumer.close()
    async with db.session() as session:
        row = await session.connection.fetchrow("select * from dead_letter")
    assert (row["body"], row["reason"]) == (b"\xff not json", "unreadable")
    assert (row["queue"], row["source"]) == (
        topology.queue(bench.queue).dead_letter_queue,
        bench.queue,
    )
    assert row["headers"]["x-reason"] == "unreadable"
    assert row["headers"]["x-platform"] == "tiktok"
    await bus.close()
