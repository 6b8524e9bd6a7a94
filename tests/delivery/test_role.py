"""The whole role: wake-up, delivery, shutdown, retention."""

import asyncio
from datetime import timedelta

import msgspec
import pytest

from opilio.delivery.outbox.event_log import Events
from opilio.delivery.retention import DeliveryRetention, KeepFor
from opilio.delivery.webhooks.client import WebhookClient
from opilio.errors import Invalid, NotFound
from opilio.runtime.bootstrap import wire
from opilio.runtime.roles.delivery import serve
from tests.delivery.receiver import Receiver, Reply
from tests.delivery.world import ANYWHERE, World


@pytest.fixture
async def world(db):
    async with WebhookClient(ANYWHERE) as client:
        yield World(db, client)


class Role:
    """The role as a process runs it."""

    def __init__(self, opilio) -> None:
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(serve(opilio, self._stop))

    async def end(self) -> None:
        self._stop.set()
        await self._task


@pytest.fixture
async def role(settings, db):
    role = Role(wire(settings.with_values(webhook_allow_private="true"), db))
    yield role
    await role.end()


async def test_an_event_becomes_a_webhook_while_it_runs(world, role):
    async with Receiver() as receiver:
        endpoint = await world.subscribe(receiver.url())
        await world.emit("s", n=1)
        await world.db.notify("opilio_outbox")
        [got] = await receiver.arrived(1)
        assert got.verified_by(endpoint.secret)["data"] == {"n": 1}
        async with asyncio.timeout(10):
            while await world.rows("select 1 from webhook_delivery where state = 'pending'"):
                await asyncio.sleep(0.02)
        assert (await world.webhooks.get(endpoint.id)).last_success_at is not None


async def test_it_stops_in_time_and_loses_nothing_while_a_receiver_hangs(world, role):
    async with Receiver() as receiver:
        receiver.usual = Reply(delay=30)
        endpoint = await world.subscribe(receiver.url())
        await world.emit(n=1)
        await world.db.notify("opilio_outbox")
        async with asyncio.timeout(10):
            while not receiver.at_once:
                await asyncio.sleep(0.01)
        async with asyncio.timeout(10):
            await role.end()
        assert (await world.webhooks.get(endpoint.id)).pending == 1
        [gate] = await world.rows("select lease from webhook_gate")
        assert gate["lease"] is None, "the next sender need not wait for a lease"


async def test_the_tail_shows_each_event_once_as_it_is_logged(world):
    events = Events(world.db)
    seen = []

    async def watch():
        async for event in events.tail(types=["crawl.job.*"]):
            seen.append(msgspec.json.decode(event.event)["data"]["n"])

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0.5)
    for n in range(20):
        await world.emit(f"s{n}", n=n)
        await world.emit(f"s{n}", "other.event", n=n)
    world.clock.at += timedelta(seconds=1)
    await world.relay_all()
    async with asyncio.timeout(10):
        while len(seen) < 20:
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.1)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert seen == list(range(20))


async def test_events_are_listed_by_type_subject_and_time(world):
    events = Events(world.db)
    for n in range(5):
        await world.emit(f"s{n % 2}", "crawl.job.failed" if n == 3 else "crawl.job.completed", n=n)
        world.clock.at += timedelta(minutes=1)
        await world.relay_all()
    page = await events.page(limit=2)
    assert [msgspec.json.decode(e.event)["data"]["n"] for e in page.items] == [4, 3]
    rest = await events.page(limit=10, cursor=page.next_cursor)
    assert [e.seq for e in rest.items] == sorted((e.seq for e in rest.items), reverse=True)
    assert len(rest.items) == 3
    assert rest.next_cursor is None
    assert [e.type for e in (await events.page(types=["*.failed"])).items] == ["crawl.job.failed"]
    assert {e.subject for e in (await events.page(subject="s1")).items} == {"s1"}
    assert len((await events.page(since=world.clock.at - timedelta(minutes=2, seconds=1))).items) == 2
    assert (await events.get(page.items[0].id)).seq == page.items[0].seq
    with pytest.raises(Invalid):
        await events.page(cursor="nonsense")


async def test_history_is_kept_as_long_as_wanted_and_no_longer(world):
    async with Receiver() as receiver:
        await world.subscribe(receiver.url())
        await world.emit(n=1)
        await world.relay_all()
        await world.send_all()
    keep = KeepFor(events=timedelta(days=10), attempts=timedelta(days=5), deliveries=timedelta(days=2))
    retention = DeliveryRetention(world.db, keep, clock=world.clock)

    async def left():
        tables = ("event_log", "webhook_attempt", "webhook_delivery")
        return [len(await world.rows(f"select 1 from {table}")) for table in tables]

    await retention.run_once()
    assert await left() == [1, 1, 1]
    for days, expected in ((3, [1, 1, 0]), (4, [1, 0, 0]), (5, [0, 0, 0])):
        world.clock.at += timedelta(days=days)
        await retention.run_once()
        assert await left() == expected
    await world.emit(n=2)
    await world.relay_all()
    assert await left() == [1, 0, 1]
    assert await world.rows("select 1 from event_other") == []


def test_events_outlive_their_retries():
    with pytest.raises(ValueError, match="four days"):
        KeepFor(events=timedelta(days=3))


async def test_an_event_that_was_pruned_is_not_found(world):
    from uuid import uuid4

    with pytest.raises(NotFound):
        await Events(world.db).get(uuid4())
