"""Upkeep and catching up go in short steps, on the database's clock, beside whoever works meanwhile."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from opilio import audit
from opilio.clock import Clock
from opilio.contracts.webhooks import EndpointCreate, EndpointPatch
from opilio.delivery import retention
from opilio.delivery.outbox.event_log import Events
from opilio.delivery.outbox.relay import Relay
from opilio.delivery.outbox.routing import to_broker
from opilio.delivery.progress import ProgressReports, ProgressThrottle
from opilio.delivery.retention import DeliveryRetention
from opilio.delivery.webhooks import endpoints, sender
from opilio.delivery.webhooks.backfill import Backfill
from opilio.delivery.webhooks.client import WebhookClient
from opilio.delivery.webhooks.endpoints import Webhooks
from opilio.delivery.webhooks.sender import Sender
from opilio.loop import drain
from tests.delivery.receiver import Receiver
from tests.delivery.world import ANYWHERE, World


@pytest.fixture
async def world(db):
    async with WebhookClient(ANYWHERE) as client:
        yield World(db, client)


async def _finished_deliveries(world: World, count: int) -> None:
    await world.rows(
        """insert into webhook_delivery (endpoint_id, subject, webhook_id, type, cause, body, state, head, next_at, created_at, finished_at)
           select opilio_uuid7(), 's', n::text, 't', 'test', 'x', 'delivered', false, now(), now(), now() - interval '30 days'
           from generate_series(1, $1::int) n""",
        count,
    )


async def test_old_deliveries_go_while_others_work(world):
    """One transaction held all locks until the end; the relay and the sender waited for it."""
    await _finished_deliveries(world, 20_000)
    async with world.db.transaction() as blocker:  # someone has one of them locked
        await blocker.connection.fetch(
            "select 1 from webhook_delivery order by finished_at desc, delivery_id desc limit 1 for update"
        )
        running = asyncio.create_task(DeliveryRetention(world.db).run_once())
        async with asyncio.timeout(30):
            while len(await world.rows("select 1 from webhook_delivery")) > 2_000:
                await asyncio.sleep(0.05)
        assert not running.done()
    assert (await running)["deliveries"] == 20_000


async def test_old_deliveries_are_found_by_an_index(world):
    await _finished_deliveries(world, 3000)
    await world.rows("analyze webhook_delivery")
    plan = await world.rows(
        """explain select delivery_id from webhook_delivery
           where state <> 'pending' and finished_at < now() - interval '90 days' order by finished_at limit 1000"""
    )
    assert "webhook_delivery_finished" in " ".join(row[0] for row in plan)


class AheadClock(datetime):
    """The clock of a machine that is ten minutes ahead."""

    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) + timedelta(minutes=10)


async def test_a_machine_whose_clock_is_ahead_delays_nothing(db, monkeypatch):
    """Deliveries were due by the application's clock and claimed by the database's."""
    for module in (endpoints, sender, retention):
        monkeypatch.setattr(module, "datetime", AheadClock)
    async with Receiver() as receiver, WebhookClient(ANYWHERE) as client:
        webhooks = Webhooks(db, allow=ANYWHERE, clock=Clock())
        made = await webhooks.create(EndpointCreate(url=receiver.url(), events=["*"]), actor="tests")
        world = World(db, client)
        await world.emit(n=1)
        await drain(Relay(db, to_broker).run_once)
        reports = ProgressReports(allow=ANYWHERE)
        async with db.transaction() as session:
            await reports.report(session, subject="p", url=receiver.url("/p"), body=b"{}", version=1)
        await drain(ProgressThrottle(db).run_once)
        await drain(Sender(db, client).run_once)
        assert sorted(got.path for got in await receiver.arrived(2)) == ["/hook", "/p"]
        [row] = await world.rows("select max(logged_at) <= clock_timestamp() as sane from event_log")
        assert row["sane"]
        assert (await webhooks.get(made.id)).created_at <= datetime.now(UTC) + timedelta(minutes=1)
        [late] = await world.rows(
            "select count(*) as n from webhook_delivery where next_at > clock_timestamp()"
        )
        assert late["n"] == 0


async def test_a_long_pause_is_made_up_for_in_steps_and_in_order(world, db):
    """20,000 missed events; each step is short, and what happens meanwhile keeps its place."""
    async with Receiver() as receiver:
        endpoint = await world.subscribe(receiver.url())
        await world.rows(
            "update webhook_endpoint set status = 'paused', status_since = now() - interval '1 hour'"
        )
        await world.rows("update webhook_gate set active = false")
        await world.emit_many([(f"s{n % 50}", "crawl.job.completed", {"n": n}) for n in range(20_000)])
        await world.relay_all()
        assert await world.rows("select 1 from webhook_delivery") == []
        began = time.monotonic()
        changed = await world.webhooks.change(endpoint.id, EndpointPatch(enabled=True), actor="tests")
        assert (changed.status, time.monotonic() - began < 5) == ("active", True)
        backfill = Backfill(db, batch=1000, clock=world.clock)
        for step in range(5):
            assert await backfill.run_once() == {"looked_at": 1000}
            await world.emit("s0", n=20_000 + step)  # new events while it catches up
            await world.relay_all()
        await drain(backfill.run_once)
        await world.emit("s0", n=20_005)
        await world.relay_all()
        rows = await world.rows(
            """select d.subject, v.data -> 'n' as n
               from webhook_delivery d join event_log v on v.event_id = d.webhook_id::uuid order by d.delivery_id"""
        )
        numbers = [int(row["n"]) for row in rows]
        assert sorted(numbers) == list(range(20_006)), "nothing lost, nothing doubled"
        of_s0 = [int(row["n"]) for row in rows if row["subject"] == "s0"]
        assert of_s0 == sorted(of_s0)
        [gate] = await world.rows("select backfill_seq from webhook_gate")
        assert gate["backfill_seq"] is None


async def test_the_tail_shows_each_event_once_however_many_there_are(world):
    """Above 10,000 events in five seconds the same rows were shown for ever."""
    seen: list[int] = []

    async def watch():
        async for event in Events(world.db).tail(since=datetime.now(UTC) - timedelta(minutes=5)):
            seen.append(msgspec.json.decode(event.event)["data"]["n"])

    await world.emit_many([(f"s{n}", "crawl.job.completed", {"n": n}) for n in range(25_000)])
    world.clock.at = datetime.now(UTC)
    await world.relay_all()
    watching = asyncio.create_task(watch())
    async with asyncio.timeout(60):
        while len(seen) < 25_000:
            await asyncio.sleep(0.05)
    await world.emit("late", n=25_000)
    await world.relay_all()
    await world.db.notify("opilio_events")
    async with asyncio.timeout(10):
        while len(seen) < 25_001:
            await asyncio.sleep(0.05)
    await asyncio.sleep(0.5)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert seen == list(range(25_001))


async def test_old_audit_entries_are_deleted(db):
    await audit.record(db, "tests", "x", "new")
    async with db.session() as session:
        await session.connection.execute(
            """insert into audit_log (at, actor, action, subject)
               select now() - interval '400 days', 'a', 'x', 's' from generate_series(1, 6000)"""
        )
    assert await audit.delete_before(db, datetime.now(UTC) - timedelta(days=365)) == 6000
    assert [row["subject"] for row in await audit.entries(db, None, 10)] == ["new"]
