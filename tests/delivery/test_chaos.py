"""Under kills every event arrives, in order per subject; duplicates have the same id."""

import asyncio
import random
import signal
import subprocess
import sys
from collections import defaultdict
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import aio_pika
import msgspec
import pytest

from opilio.bus import Ack, Message
from opilio.contracts.topology import RESULTS, RESULTS_QUEUE, topology
from opilio.delivery.outbox.relay import Relay
from opilio.delivery.outbox.routing import to_broker
from opilio.delivery.webhooks.client import WebhookClient
from opilio.delivery.webhooks.sender import Sender
from opilio.errors import Unavailable
from opilio.rabbitmq.bus import RabbitBus
from tests.delivery.receiver import Receiver, Reply
from tests.delivery.world import ANYWHERE, World

EVENTS = 240
SUBJECTS = 9


def audit(arrived: list[tuple[str, bytes]], expected: dict[str, int]) -> int:
    """Judges what a receiver got, in the order it got it; answers how many were doubles."""
    bodies: dict[str, bytes] = {}
    order: dict[str, list[int]] = defaultdict(list)
    for id_, body in arrived:
        assert bodies.setdefault(id_, body) == body, "the same id with another body"
        event = msgspec.json.decode(body)
        assert event["id"] == id_
        if event["data"]["n"] not in order[event["subject"]]:
            order[event["subject"]].append(event["data"]["n"])
    assert set(bodies) == set(expected), f"{len(set(expected) - set(bodies))} events are missing"
    for subject, numbers in order.items():
        assert numbers == sorted(numbers), f"{subject} is out of order"
    return len(arrived) - len(bodies)


async def _expected(world: World) -> dict[str, int]:
    rows = await world.rows("select event_id from event_log")
    return {str(row["event_id"]): 1 for row in rows}


class Process:
    """Delivery in a child process."""

    def __init__(self, *args: str) -> None:
        self._args = [sys.executable, str(Path(__file__).with_name("role_process.py")), *args]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        if self._process:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None


_BROKER_GONE = (aio_pika.exceptions.AMQPError, aio_pika.exceptions.ChannelInvalidStateError, ConnectionError)


async def _collect(url: str, queue: str, into: list[tuple[str, bytes]]) -> None:
    """An application's consumer that comes back by itself, and keeps what is delivered twice."""
    # Closed by us, or it would go on looking for its broker after the test.
    async with await aio_pika.connect_robust(url, reconnect_interval=0.3) as connection:
        channel = await connection.channel()
        declared = await channel.declare_queue(queue, durable=True, arguments={"x-queue-type": "quorum"})
        await declared.bind("crawl.events", "#")
        async with declared.iterator() as messages:
            async for message in messages:
                into.append((message.message_id, message.body))
                with suppress(*_BROKER_GONE):  # it is delivered again
                    await message.ack()


@pytest.mark.timeout(200)
async def test_kill_9_broker_restart_and_lost_replies_lose_nothing(db, database_url, own_rabbitmq):
    seed = random.Random(7)
    consumed: list[tuple[str, bytes]] = []
    bus = await RabbitBus.connect(own_rabbitmq.url, topology())
    await bus.close()
    collecting = asyncio.create_task(_collect(own_rabbitmq.url, "application", consumed))
    async with Receiver() as receiver, WebhookClient(ANYWHERE) as client:
        # One answer in forty is lost after the request was taken, one in forty is an error.
        receiver.usual = lambda _got: seed.choices(
            [Reply(), Reply(cut=True), Reply(500)], weights=[38, 1, 1]
        )[0]
        world = World(db, client)
        await world.subscribe(receiver.url(), ["crawl.*"], max_concurrent=4)
        process = Process(database_url, own_rabbitmq.url)
        process.start()
        for batch in range(8):
            await world.emit_many(
                [
                    (f"s{n % SUBJECTS}", "crawl.job.completed", {"n": n})
                    for n in range(batch * EVENTS // 8, (batch + 1) * EVENTS // 8)
                ]
            )
            await db.notify("opilio_outbox")
            await asyncio.sleep(seed.uniform(0.3, 1.2))
            if batch in (1, 3, 6):
                process.kill()
                process.start()
            if batch == 4:
                await asyncio.to_thread(own_rabbitmq.stop)
                await asyncio.to_thread(own_rabbitmq.start)
        expected = await _expected(world)
        async with asyncio.timeout(120):
            while len({i for i, _ in consumed}) < EVENTS or len({g.id for g in receiver.got}) < EVENTS:
                await asyncio.sleep(0.1)
        process.kill()
        collecting.cancel()
        await asyncio.gather(collecting, return_exceptions=True)
        audit(consumed, expected)
        doubles = audit([(got.id, got.body) for got in receiver.got], expected)
        assert doubles > 0, "replies were lost, so some must have come twice"


@pytest.mark.timeout(120)
async def test_a_bus_goes_on_by_itself_when_its_broker_comes_back(own_rabbitmq):
    """The same bus publishes and consumes before, while and after the broker is away."""
    bus = await RabbitBus.connect(own_rabbitmq.url, topology())
    got: list[bytes] = []

    async def handle(message: Message) -> Ack:
        got.append(message.body)
        return Ack()

    async def publish(body: bytes) -> None:
        await bus.publish(RESULTS, "crawler.tiktok.result", body)

    await bus.consume(RESULTS_QUEUE, handle, prefetch=5)
    await publish(b"before")
    await asyncio.to_thread(own_rabbitmq.kill)
    with pytest.raises(Unavailable):
        await publish(b"while it is away")
    await asyncio.to_thread(own_rabbitmq.start)
    async with asyncio.timeout(60):
        while b"after" not in got:
            with suppress(Unavailable):  # it answers before its queues have found their leader
                await publish(b"after")
            await asyncio.sleep(0.2)
    await bus.close()
    assert b"before" in got


async def test_a_receiver_that_is_down_for_an_hour_gets_everything_in_order(db):
    async with Receiver() as receiver, WebhookClient(ANYWHERE, limit=timedelta(seconds=1)) as client:
        world = World(db, client)
        await world.subscribe(receiver.url(), max_concurrent=3)
        attempts: list[tuple[str, bytes]] = []
        down = True

        def answer(got) -> Reply:
            if not down:
                attempts.append((got.id, got.body))
            return Reply(503) if down else Reply()

        receiver.usual = answer
        for minute in range(60):
            await world.emit_many(
                [(f"s{n % 5}", "crawl.job.completed", {"n": minute * 5 + n}) for n in range(5)]
            )
            await world.relay_all()
            await world.pass_(minutes=1)
        tried = len(receiver.got)
        assert tried < 60, f"a receiver that is down was asked {tried} times in an hour"
        down = False
        expected = await _expected(world)
        for _ in range(40):
            await world.pass_(minutes=5)
            if len(attempts) >= len(expected):
                break
        assert audit(attempts, expected) == 0


async def test_a_reply_that_is_lost_means_the_same_again_and_nothing_else(db):
    async with Receiver() as receiver, WebhookClient(ANYWHERE) as client:
        world = World(db, client)
        await world.subscribe(receiver.url(), max_concurrent=1)
        receiver.replies.append(Reply(cut=True))
        await world.emit_many([("s", "crawl.job.completed", {"n": n}) for n in range(3)])
        await world.relay_all()
        await world.send_all()
        await world.pass_(seconds=10)
        assert audit([(got.id, got.body) for got in receiver.got], await _expected(world)) == 1


async def test_one_dead_host_does_not_delay_the_others(db):
    """Half the endpoints are at a host that takes connections and never answers."""
    silent = await asyncio.start_server(lambda reader, _writer: reader.read(), "127.0.0.1", 0)
    dead = f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}"
    async with Receiver() as receiver, WebhookClient(ANYWHERE, limit=timedelta(seconds=5)) as client:
        world = World(db, client)
        for number in range(60):
            await world.subscribe(f"{dead}/{number}")
            await world.subscribe(receiver.url(f"/{number}"))
        await world.emit(n=1)
        await world.relay_all()
        sender = asyncio.create_task(Sender(db, client, at_once=40, host_at_once=16).run())
        got = await receiver.arrived(60, seconds=4)  # sooner than a single one of the dead gives up
        assert len(got) == 60
        sender.cancel()
        await asyncio.gather(sender, return_exceptions=True)
    silent.close()


async def test_many_senders_and_relays_at_once_keep_every_endpoint_in_order(db):
    """They meet at the same gates; one answer in thirty is an error."""
    seed = random.Random(3)
    async with Receiver() as receiver, WebhookClient(ANYWHERE) as client:
        receiver.usual = lambda _got: Reply(500) if seed.random() < 1 / 30 else Reply()
        world = World(db, client)
        endpoints = [await world.subscribe(receiver.url(f"/{number}")) for number in range(8)]
        workers = [Sender(db, client, at_once=10, most_of_one=4).run() for _ in range(3)]
        workers += [Relay(db, to_broker, batch=7).loop().run() for _ in range(2)]
        tasks = [asyncio.create_task(worker) for worker in workers]
        for batch in range(6):
            await world.emit_many(
                [(f"s{n % 4}", "crawl.job.completed", {"n": n}) for n in range(batch * 10, batch * 10 + 10)]
            )
            await db.notify("opilio_outbox")
            await asyncio.sleep(0.05)
        expected = await _expected(world)
        async with asyncio.timeout(100):
            while len({(got.path, got.id) for got in receiver.got}) < len(expected) * len(endpoints):
                await asyncio.sleep(0.05)
            while await world.rows("select 1 from webhook_delivery where state = 'pending'"):
                await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for number in range(len(endpoints)):
            audit([(got.id, got.body) for got in receiver.got if got.path == f"/{number}"], expected)
        assert (
            await world.rows("select 1 from webhook_gate where due_at < 'infinity' or lease is not null")
            == []
        )
