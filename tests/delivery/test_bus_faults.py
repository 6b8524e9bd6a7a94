"""One bad message does not affect others: malformed headers, messages too large, waits of different length."""

import asyncio
import time
from datetime import timedelta

import aio_pika
import psutil
import pytest

from opilio.adapters.local_bus import LocalBus
from opilio.bus import Ack, DeadLetter, Message, Outgoing, Park, Retry, Unpublishable
from opilio.contracts.topology import DEAD_LETTERS, Exchange, Topology
from opilio.delivery.outbox.publish import Publisher
from opilio.errors import Unavailable
from opilio.rabbitmq import messages as wire
from opilio.rabbitmq.bus import RabbitBus
from tests.delivery.test_bus_conformance import BusCase, a_topology, case  # noqa: F401
from tests.delivery.world import World

MIB = 1 << 20


async def dead_letters(world: BusCase, db) -> list[tuple[bytes, str]]:
    """Body and reason of what the case's queue dead-lettered."""
    if isinstance(world.bus, LocalBus):
        async with db.session() as session:
            rows = await session.connection.fetch("select body, reason from dead_letter order by dead_at")
        return [(bytes(row["body"]), row["reason"]) for row in rows]
    found: list[tuple[bytes, str]] = []
    async with await aio_pika.connect(world.bus._url) as connection:
        channel = await connection.channel()
        queue = await channel.get_queue(world.topology.queue(world.queue).dead_letter_queue)
        while (message := await queue.get(fail=False)) is not None:
            found.append((message.body, str(message.headers.get("x-reason"))))
    return found


@pytest.mark.parametrize("retries", ["many", [1], "12abc", 1.5, {"n": 1}, -3])
async def test_a_malformed_retry_count_is_one_dead_letter(case, db, retries):  # noqa: F811
    await case.send(b"bad", headers={"x-retries": retries})
    await case.send(b"good")
    await case.bus.consume(case.queue, case.answering(Ack()), prefetch=1)
    assert (await case.next()).body == b"good"
    async with asyncio.timeout(10):
        while not (found := await dead_letters(case, db)):
            await asyncio.sleep(0.05)
    [(body, reason)] = found
    assert body == b"bad"
    assert "x-retries" in reason


async def test_a_short_wait_does_not_queue_behind_a_long_one(case):  # noqa: F811
    """Both are first retries of one queue."""
    waits = {b"long": timedelta(seconds=30), b"short": timedelta(seconds=0.5)}

    def retry_first(message: Message):
        return Ack() if message.retries else Retry(waits[message.body], "later")

    await case.bus.consume(case.queue, case.answering(retry_first))
    await case.send(b"long")
    assert (await case.next()).body == b"long"
    await case.send(b"short")
    assert (await case.next()).body == b"short"
    began = time.monotonic()
    again = await case.next(10)
    assert (again.body, again.retries) == (b"short", 1)
    assert 0.3 < time.monotonic() - began < 6


async def test_parked_messages_wait_apart_and_come_back(case):  # noqa: F811
    """However many there are, they take no place of those that can be handled."""
    await case.bus.publish_many(
        [Outgoing(case.exchange, "a.b.c", b"legacy", {"x-n": n}) for n in range(1200)]
    )
    await case.send(b"new")
    done = asyncio.Event()
    parked = 0

    async def handle(message: Message):
        nonlocal parked
        if message.body == b"new":
            done.set()
            return Ack()
        parked += 1
        return Park("legacy", "switched off")

    consumer = await case.bus.consume(case.queue, handle, prefetch=2)
    async with asyncio.timeout(60):
        await done.wait()
    await consumer.close()
    assert parked == 1200
    assert await case.bus.depth(case.queue) == 0
    assert await case.bus.unpark(case.queue, "legacy") == 1200
    assert await case.bus.unpark(case.queue, "legacy") == 0
    await case.bus.consume(case.queue, case.answering(Ack()), prefetch=100)
    back = [await case.next() for _ in range(1200)]
    assert {message.headers["x-n"] for message in back} == set(range(1200))
    assert {(message.exchange, message.routing_key) for message in back} == {(case.exchange, "a.b.c")}
    assert {message.retries for message in back} == {0}


async def test_a_message_too_large_for_the_broker_is_one_dead_letter(db, rabbitmq_url):
    topology = a_topology()
    bus = await RabbitBus.connect(rabbitmq_url, topology)
    exchange = topology.exchanges[0].name
    messages = [Outgoing(exchange, "a.b.c", b"1"), Outgoing(exchange, "a.b.c", b"x" * 17 * MIB),
                Outgoing(exchange, "a.b.c", b"3"), Outgoing(exchange, "nobody", b"4")]  # fmt: skip
    results = await bus.publish_many(messages)
    assert [type(result).__name__ for result in results] == [
        "NoneType", "Unpublishable", "NoneType", "Unroutable",
    ]  # fmt: skip
    assert "larger than" in str(results[1])
    assert await bus.depth(topology.queues[0].name) >= 2
    with pytest.raises(Unpublishable):
        await bus.publish(exchange, "a.b.c", b"x" * 17 * MIB)
    await bus.close()


async def test_the_outbox_goes_on_past_a_message_too_large_for_the_broker(db, rabbitmq_url):
    topology = a_topology()
    bus = await RabbitBus.connect(rabbitmq_url, topology)
    world = World(db, None)
    for body in ("'1'", "'\"' || repeat('x', 17 * 1048576) || '\"'", "'3'"):
        await world.rows(
            f"""insert into outbox (type, subject, data, occurred_at, exchange, routing_key)
                values ('t', 's', ({body})::jsonb, now(), $1, 'a.b.c')""",
            topology.exchanges[0].name,
        )
    await world.relay_all()
    assert await Publisher(db, bus).run_once() == {"published": 3}
    world_bench = BusCase(bus, topology, None)
    await bus.consume(world_bench.queue, world_bench.answering(Ack()))
    arrived = set[bytes]()
    while arrived != {b"1", b"3"}:  # one that was confirmed beside the refused one may come twice
        arrived.add((await world_bench.next()).body)
    [dead] = await world.rows("select queue, reason, length(body) as size from dead_letter")
    assert (dead["queue"], dead["size"] > 17 * MIB) == ("outbound.dlq", True)
    assert "larger than" in dead["reason"]
    assert await world.rows("select 1 from outbound") == []
    await bus.close()


def test_a_dead_letter_that_is_read_again_keeps_its_reason():
    """What copies dead letters into the list waits for a database that is away."""
    queue = a_topology().queues[0]
    dead = wire.dead(Message(b"x", "q", "e", "k", "m1"), queue, "not_json")
    again = wire.retried(
        Message(b"x", "q.dlq", "e", "k", "m1", headers=dict(dead.headers)),
        queue,
        timedelta(1),
        "OSError: away",
    )
    assert again.headers["x-reason"] == "not_json"
    first = wire.retried(Message(b"x", "q", "e", "k", "m1"), queue, timedelta(1), "OSError: away")
    assert first.headers["x-reason"] == "OSError: away"


async def test_a_declaration_that_fails_leaves_no_connection_behind(rabbitmq, rabbitmq_url):
    async with await aio_pika.connect(rabbitmq_url) as connection:
        channel = await connection.channel()
        await channel.declare_exchange("opilio.test.direct", "direct", durable=True)
        bus = RabbitBus(rabbitmq_url, Topology((Exchange("opilio.test.direct", ""),), ()))

        def open_connections() -> int:
            ours = psutil.Process().net_connections(kind="tcp")
            return sum(
                1 for c in ours if c.raddr and c.raddr.port == rabbitmq.port and c.status == "ESTABLISHED"
            )

        before = open_connections()
        for _ in range(3):
            with pytest.raises(Unavailable, match=r"opilio\.test\.direct"):
                await bus.connection()
        assert open_connections() == before


async def test_removing_dead_letters_delivers_no_other_one_again(db, rabbitmq_url):
    """RabbitMQ 4 drops a message of a quorum queue after 20 deliveries."""
    topology = a_topology()
    bus = await RabbitBus.connect(rabbitmq_url, topology)
    world = BusCase(bus, topology, None)
    await bus.consume(world.queue, world.answering(DeadLetter("unreadable")))
    for n in range(25):
        await world.send(b"%d" % n)
        await world.next()
    dlq = topology.queue(world.queue).dead_letter_queue
    async with asyncio.timeout(10):
        while await bus.depth(dlq) < 25:
            await asyncio.sleep(0.05)
    ids: list[str] = []

    async def copy(message: Message):
        ids.append(message.headers["x-dead-letter-id"])
        return Ack()

    await bus.consume(world.dead, copy)
    async with asyncio.timeout(10):
        while len(ids) < 25:
            await asyncio.sleep(0.05)
    kept, *others = ids
    for gone in reversed(others):
        assert await bus.remove(dlq, [gone]) == {gone}
    async with await aio_pika.connect(rabbitmq_url) as connection:
        channel = await connection.channel()
        queue = await channel.get_queue(dlq)
        last = await queue.get()
    assert last.headers["x-dead-letter-id"] == kept
    assert last.headers.get("x-delivery-count", 0) == 0
    assert last.headers["x-original-routing-key"] == "a.b.c"
    assert DEAD_LETTERS in {exchange.name for exchange in topology.exchanges}
    await bus.close()
