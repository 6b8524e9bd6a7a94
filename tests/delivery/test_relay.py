"""From the outbox outwards: nothing lost, nothing doubled, each subject in its order."""

import asyncio
from collections import defaultdict

import msgspec
import pytest

from opilio.adapters.local_bus import LocalBus
from opilio.adapters.postgres import load_queries, migrate
from opilio.bus import Ack, Message, Outgoing, Unroutable
from opilio.contracts.topology import topology
from opilio.delivery.outbox.publish import Publisher
from opilio.delivery.outbox.relay import Relay
from opilio.delivery.outbox.routing import to_broker, to_local_bus
from opilio.delivery.webhooks.client import WebhookClient
from opilio.rabbitmq.bus import RabbitBus
from tests.delivery.world import ANYWHERE, World


@pytest.fixture
async def world(db):
    async with WebhookClient(ANYWHERE) as client:
        yield World(db, client)


def _ordered(bodies) -> dict[str, list[int]]:
    by_subject = defaultdict(list)
    for body in bodies:
        event = msgspec.json.decode(body)
        by_subject[event["subject"]].append(event["data"]["n"])
    return by_subject


class Recorder:
    """A bus that keeps what it is given, and fails when told to."""

    def __init__(self) -> None:
        self.messages: list[Outgoing] = []
        self.broken = False

    async def publish_many(self, messages):
        await asyncio.sleep(0.001)
        if self.broken:
            raise ConnectionError("the broker is away")
        self.messages += messages
        return [None if message.exchange else Unroutable("nobody") for message in messages]


async def test_an_event_is_queued_for_the_broker_once(world):
    await world.emit("s1", n=1)
    assert await world.relay.run_once() == {"relayed": 1}
    assert await world.relay.run_once() == {"relayed": 0}
    [logged] = await world.rows("select event_id, body from event_log")
    [queued] = await world.rows("select * from outbound")
    assert bytes(logged["body"]) == bytes(queued["body"])
    assert (queued["exchange"], queued["routing_key"]) == ("crawl.events", "crawl.job.completed")
    assert queued["message_id"] == str(logged["event_id"]) == msgspec.json.decode(logged["body"])["id"]
    assert queued["headers"]["x-schema-version"] == 1


async def test_a_message_for_the_bus_alone_is_neither_logged_nor_wrapped(world):
    await world.rows(
        """insert into outbox (type, subject, data, occurred_at, exchange, routing_key, headers, correlation_id)
           values ('analyze_result', 'p1', '{"project_id": "p1"}', now(), 'collector.results', 'analytics.result',
                   '{"x-platform": "tiktok"}', 'job-1')"""
    )
    await world.relay_all()
    [queued] = await world.rows("select * from outbound")
    assert (queued["exchange"], queued["routing_key"]) == ("collector.results", "analytics.result")
    assert msgspec.json.decode(queued["body"]) == {"project_id": "p1"}
    assert (queued["headers"]["x-platform"], queued["correlation_id"]) == ("tiktok", "job-1")
    assert await world.rows("select 1 from event_log") == []


async def test_many_relays_and_publishers_keep_each_subject_in_order(world):
    """Four relays and four publishers at once, with small batches so that they meet."""
    await world.emit_many([(f"s{n % 7}", "crawl.job.completed", {"n": n}) for n in range(600)])
    bus = Recorder()
    relays = [Relay(world.db, to_broker, batch=13) for _ in range(4)]
    publishers = [Publisher(world.db, bus, batch=11) for _ in range(4)]

    async def drain_repeatedly(step):
        idle = 0
        while idle < 20:
            idle = 0 if any((await step()).values()) else idle + 1
            await asyncio.sleep(0.005)

    await asyncio.gather(*(drain_repeatedly(worker.run_once) for worker in [*relays, *publishers]))
    assert len(bus.messages) == len({message.message_id for message in bus.messages}) == 600
    assert all(numbers == sorted(numbers) for numbers in _ordered(m.body for m in bus.messages).values())


async def test_a_broker_that_is_away_delays_nothing_but_itself(world):
    bus = Recorder()
    bus.broken = True
    publisher = Publisher(world.db, bus)
    await world.emit(n=1)
    await world.relay_all()
    with pytest.raises(ConnectionError):
        await publisher.run_once()
    assert len(await world.rows("select 1 from event_log")) == 1
    assert await world.rows("select 1 from event_waiting") == []
    assert len(await world.rows("select 1 from outbound")) == 1
    bus.broken = False
    assert await publisher.run_once() == {"published": 1}
    assert await world.rows("select 1 from outbound") == []


async def test_a_message_that_no_queue_is_bound_for_is_a_dead_letter_and_holds_up_nothing(world):
    await world.rows(
        """insert into outbox (type, subject, data, occurred_at, exchange, routing_key)
           values ('task', 'p1', '{}', now(), '', 'crawler.nowhere.queue')"""
    )
    await world.emit(n=1)
    await world.relay_all()
    publisher = Publisher(world.db, Recorder())
    assert await publisher.run_once() == {"published": 2}
    [dead] = await world.rows("select * from dead_letter")
    assert (dead["queue"], dead["routing_key"]) == ("outbound.dlq", "crawler.nowhere.queue")


async def test_a_relay_is_woken_not_polling(world):
    bus = Recorder()
    tasks = [
        asyncio.create_task(Relay(world.db, to_broker).loop().run()),
        asyncio.create_task(Publisher(world.db, bus).loop().run()),
    ]
    await asyncio.sleep(0.5)  # both are asleep now, for five seconds if nobody wakes them
    await world.emit(n=1)
    await world.db.notify("opilio_outbox")
    async with asyncio.timeout(2):
        while not bus.messages:
            await asyncio.sleep(0.005)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("kind", ["rabbitmq", "local"])
async def test_events_and_messages_reach_consumers_on_either_bus(request, world, kind):
    wiring = topology()
    if kind == "local":
        bus = await LocalBus.connect(world.db, wiring)
        relay = Relay(world.db, to_local_bus(bus))
    else:
        bus = await RabbitBus.connect(request.getfixturevalue("rabbitmq_url"), wiring)
        relay = Relay(world.db, to_broker)
    got: asyncio.Queue[Message] = asyncio.Queue()

    async def take(message: Message):
        got.put_nowait(message)
        return Ack()

    await bus.consume("collector.results", take)
    await world.emit(n=1)
    await world.rows(
        """insert into outbox (type, subject, data, occurred_at, exchange, routing_key)
           values ('analyze_result', 'p1', '{"project_id": "p1"}', now(), 'collector.results', 'analytics.result')"""
    )
    await relay.run_once()
    if kind == "rabbitmq":
        await Publisher(world.db, bus).run_once()
    async with asyncio.timeout(10):
        message = await got.get()
    assert msgspec.json.decode(message.body) == {"project_id": "p1"}
    assert await world.rows("select 1 from dead_letter") == []
    assert len(await world.rows("select 1 from event_log")) == 1
    await bus.close()


async def test_the_schema_goes_down_and_up_with_data_in_place(world, database_url):
    await world.subscribe("https://example.com/hook")
    await world.emit(n=1)
    await world.relay_all()
    await world.emit(n=2)
    await world.rows(
        """insert into outbox (type, subject, data, occurred_at, exchange, routing_key)
           values ('task', 'p1', '{}', now(), 'x', 'y')"""
    )
    assert (await migrate.downgrade(database_url, "0001")).current == "0001"
    kept = await world.rows("select data from outbox")
    assert [row["data"] for row in kept] == [{"n": 2}], "events stay; messages of this revision go"
    status = await migrate.upgrade(database_url)
    assert status.up_to_date
    await world.relay_all()
    assert len(await world.rows("select 1 from event_log")) == 1


@pytest.mark.parametrize("part", ["opilio.delivery", "opilio.adapters"])
async def test_postgresql_understands_every_statement(db, part):
    async with db.session() as session:
        for statement in load_queries(part):
            prepared = await session.connection.prepare(statement.sql, name=statement.name)
            assert len(prepared.get_parameters()) == len(statement.params), statement.name
