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


class BusCase:
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
async def case(request, db):
    topology = a_topology()
    if request.param == "rabbitmq":
        url = request.getfixturevalue("rabbitmq_url")

        async def reopen() -> Bus:
            return await RabbitBus.connect(url, topology)
    else:

        async def reopen() -> Bus:
            return await LocalBus.connect(db, topology, lease=timedelta(seconds=2))

    bus = await reopen()
    yield BusCase(bus, topology, reopen)
    await bus.close()


async def test_it_carries_a_message_whole(case):
    await case.send(
        b'{"price": 1.10}', message_id="m1", correlation_id="job-1", headers={"x-platform": "tiktok"}
    )
    await case.bus.consume(case.queue, case.answering(Ack()))
    message = await case.next()
    assert message.body == b'{"price": 1.10}'
    assert (message.message_id, message.correlation_id) == ("m1", "job-1")
    assert (message.exchange, message.routing_key, message.queue) == (case.exchange, "a.b.c", case.queue)
    assert message.headers["x-platform"] == "tiktok"
    assert message.headers["x-schema-version"] == 1
    assert len(message.headers["x-trace-id"]) == 32
    assert (message.deliveries, message.retries) == (1, 0)


async def test_a_topic_goes_to_every_queue_bound_for_it_once(case):
    await case.send(key="a.b.tail")
    await case.send(key="tail")
    await case.bus.consume(case.queue, case.answering(Ack()), prefetch=5)
    await case.bus.consume(case.other, case.answering(Ack()), prefetch=5)
    got = [await case.next() for _ in range(3)]
    assert sorted((m.queue, m.routing_key) for m in got) == sorted(
        [(case.queue, "a.b.tail"), (case.queue, "tail"), (case.other, "a.b.tail")]
    )


async def test_what_no_queue_is_bound_for_is_refused(case):
    with pytest.raises(Unroutable):
        await case.send(key="nobody.listens")
    answers = await case.bus.publish_many(
        [Outgoing(case.exchange, "a.b.c", b"1"), Outgoing(case.exchange, "nobody", b"2")]
    )
    assert [type(answer) for answer in answers] == [type(None), Unroutable]


async def test_messages_come_in_the_order_of_publication(case):
    await case.bus.publish_many(
        [Outgoing(case.exchange, "a.b.c", str(number).encode()) for number in range(100)]
    )
    await case.bus.consume(case.queue, case.answering(Ack()), prefetch=1)
    assert [int((await case.next()).body) for _ in range(100)] == list(range(100))


async def test_no_more_than_prefetch_are_handled_at_once(case):
    await case.bus.publish_many([Outgoing(case.exchange, "a.b.c", b"{}") for _ in range(12)])
    at_once, most, done = 0, 0, asyncio.Semaphore(0)

    async def handle(_message: Message):
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.02)
        at_once -= 1
        done.release()
        return Ack()

    await case.bus.consume(case.queue, handle, prefetch=3)
    async with asyncio.timeout(15):
        for _ in range(12):
            await done.acquire()
    assert most == 3


async def test_a_retry_comes_back_later_and_says_so(case):
    def once(message: Message):
        return Ack() if message.retries else Retry(timedelta(seconds=0.4), "not yet")

    await case.send(b"original", message_id="m1", headers={"x-platform": "youtube"})
    await case.bus.consume(case.queue, case.answering(once))
    first = await case.next()
    loop = asyncio.get_running_loop()
    then = loop.time()
    second = await case.next()
    assert loop.time() - then >= 0.35
    assert second.body == b"original"
    assert (second.message_id, second.exchange, second.routing_key) == ("m1", case.exchange, "a.b.c")
    assert second.headers["retry"] is True
    assert second.headers["x-reason"] == "not yet"
    assert (second.headers["x-platform"], second.headers["x-trace-id"]) == (
        "youtube",
        first.headers["x-trace-id"],
    )
    assert second.retries == 1


async def test_a_message_can_be_published_with_a_delay(case):
    await case.bus.publish("", case.queue, b"task", after=timedelta(seconds=0.3))
    await case.bus.consume(case.queue, case.answering(Ack()))
    assert (await case.next()).body == b"task"


async def test_a_handler_that_raises_is_asked_again(case):
    def fail_once(message: Message):
        if not message.retries:
            raise ValueError("broken")
        return Ack()

    await case.send()
    await case.bus.consume(case.queue, case.answering(fail_once))
    await case.next()
    assert (await case.next()).headers["x-reason"] == "ValueError: broken"


async def test_what_a_dead_consumer_held_is_handed_out_again(case):
    started = asyncio.Event()

    async def never(_message: Message):
        started.set()
        await asyncio.Event().wait()

    await case.send(b"survivor")
    other = await case.reopen()
    await other.consume(case.queue, never)
    async with asyncio.timeout(10):
        await started.wait()
    await abandon(other)
    await case.bus.consume(case.queue, case.answering(Ack()))
    message = await case.next()
    assert message.body == b"survivor"
    assert message.deliveries == 2


async def test_a_message_that_kills_its_consumers_becomes_a_dead_letter(case):
    await case.send(b"poison")

    async def never(_message: Message):
        started.set()
        await asyncio.Event().wait()

    for _ in range(2):
        started = asyncio.Event()
        other = await case.reopen()
        await other.consume(case.queue, never)
        async with asyncio.timeout(10):
            await started.wait()
        await abandon(other)
    await case.bus.consume(case.queue, case.answering(Ack()), delivery_limit=2)
    async with asyncio.timeout(10):
        while await case.bus.depth(case.queue):
            await asyncio.sleep(0.05)
    assert case.got.empty()


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
    case = BusCase(bus, topology, None)
    await case.send(b"\xff not json", message_id="m1")
    await bus.consume(case.queue, case.answering(DeadLetter("unreadable")))
    await case.next()
    copies: asyncio.Queue[Message] = asyncio.Queue()

    async def copy(message: Message):
        copies.put_nowait(message)
        return Ack()

    await bus.consume(case.dead, copy)
    async with asyncio.timeout(10):
        dead = await copies.get()
    assert (dead.body, dead.headers["x-reason"]) == (b"\xff not json", "unreadable")
    kept = topology.queue(case.queue).dead_letter_queue
    assert await bus.depth(kept) == 1
    assert await bus.remove(kept, [dead.headers["x-dead-letter-id"]])
    assert await bus.depth(kept) == 0
    await bus.close()


async def test_the_local_bus_keeps_dead_letters_in_their_table(db):
    topology = a_topology()
    bus = await LocalBus.connect(db, topology)
    case = BusCase(bus, topology, None)
    await case.send(b"\xff not json", message_id="m1", headers={"x-platform": "tiktok"})
    consumer = await bus.consume(case.queue, case.answering(DeadLetter("unreadable")))
    await case.next()
    await consumer.close()
    async with db.session() as session:
        row = await session.connection.fetchrow("select * from dead_letter")
    assert (row["body"], row["reason"]) == (b"\xff not json", "unreadable")
    assert (row["queue"], row["source"]) == (
        topology.queue(case.queue).dead_letter_queue,
        case.queue,
    )
    assert row["headers"]["x-reason"] == "unreadable"
    assert row["headers"]["x-platform"] == "tiktok"
    await bus.close()
