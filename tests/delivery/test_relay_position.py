"""The relay's position in the event log: no event is passed over, whoever commits first."""

import asyncio
from datetime import UTC, datetime

import asyncpg
import msgspec
import pytest

from opilio.delivery.outbox.envelope import envelope
from opilio.delivery.outbox.relay import Relay
from opilio.delivery.outbox.routing import to_broker
from opilio.delivery.webhooks.client import WebhookClient
from tests.delivery.world import ANYWHERE, World

_LOG = "insert into event (type, subject, data, occurred_at) values ('crawl.job.completed', $1, $2, now())"


@pytest.fixture
async def world(db):
    async with WebhookClient(ANYWHERE) as client:
        yield World(db, client)


@pytest.fixture
async def slow(database_url):
    """Someone whose transaction stays open for as long as a test wants."""
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


async def _relayed(world: World) -> list[int]:
    rows = await world.rows("select body from outbound order by seq")
    return [msgspec.json.decode(row["body"])["data"]["n"] for row in rows]


async def _ranges(world: World) -> int:
    [row] = await world.rows("select (select count(*) from unnest(relayed)) as n from relay_position")
    return row["n"]


async def _settle(world: World) -> None:
    """Transactions of the whole server count, and the fixtures create databases meanwhile."""
    async with asyncio.timeout(20):
        while await _ranges(world) > 1:
            await world.relay.run_once()


async def test_an_event_that_commits_after_later_ones_is_relayed(world, slow):
    transaction = slow.transaction()
    await transaction.start()
    await slow.execute(_LOG, "early", '{"n": 1}')
    await world.emit("late", n=2)
    await world.relay_all()
    assert await _relayed(world) == [2], "an open transaction holds up nobody else"
    for _ in range(3):
        await world.relay.run_once()
    assert await _ranges(world) == 2, "its place is kept as long as it is open"
    await transaction.commit()
    await world.relay_all()
    assert sorted(await _relayed(world)) == [1, 2]


async def test_a_place_that_was_rolled_back_is_given_up(world, slow):
    transaction = slow.transaction()
    await transaction.start()
    await slow.execute(_LOG, "never", '{"n": 1}')
    await world.emit("s", n=2)
    await world.relay_all()
    await transaction.rollback()
    await _settle(world)
    before = await world.rows("select xmin::text from relay_position")
    await world.relay.run_once()
    assert await world.rows("select xmin::text from relay_position") == before, "an idle relay writes nothing"


async def test_gaps_are_settled_only_when_everything_below_them_was_read(world, slow):
    """A full batch may end below a gap that nobody can fill any more."""
    transaction = slow.transaction()
    await transaction.start()
    await slow.execute(_LOG, "gap", '{"n": 0}')
    await world.emit_many([(f"s{n}", "crawl.job.completed", {"n": n}) for n in range(1, 4)])
    await world.relay_all()
    await slow.execute(_LOG, "more", '{"n": 4}')
    await world.emit_many([(f"s{n}", "crawl.job.completed", {"n": n}) for n in range(5, 12)])
    small = Relay(world.db, to_broker, batch=2, clock=world.clock)
    await small.run_once()
    await transaction.commit()
    while (await small.run_once())["relayed"]:
        pass
    assert sorted(await _relayed(world)) == list(range(12))


async def test_the_numbers_of_another_server_are_noted_again(world, slow):
    """A restored dump brings transaction numbers that this server may never reach."""
    transaction = slow.transaction()
    await transaction.start()
    await slow.execute(_LOG, "never", "{}")
    await world.emit("s", n=1)
    await world.relay_all()
    await transaction.rollback()
    await world.rows("update relay_position set missed_upto = 1, missed_xid = '9000000000'")
    await _settle(world)


async def test_while_one_relay_works_another_leaves_it_alone_and_then_goes_on(world, slow):
    transaction = slow.transaction()
    await transaction.start()
    await slow.execute("select 1 from relay_position for update")
    await world.emit("s", n=1)
    async with asyncio.timeout(5):
        assert await world.relay.run_once() == {"relayed": 0}
    await transaction.rollback()
    assert await world.relay.run_once() == {"relayed": 1}


async def test_events_that_an_older_version_left_in_the_outbox_are_logged_and_relayed_in_order(world):
    await world.rows(
        """insert into outbox (type, subject, data, occurred_at)
           select 'crawl.job.completed', 's', jsonb_build_object('n', n), now() from generate_series(1, 5) n"""
    )
    ids = [row["event_id"] for row in await world.rows("select event_id from outbox order by seq")]
    await world.relay_all()
    assert await _relayed(world) == [1, 2, 3, 4, 5]
    assert [row["event_id"] for row in await world.rows("select event_id from event_log order by seq")] == ids
    assert await world.rows("select 1 from outbox") == []


async def test_events_and_messages_of_a_subject_leave_in_the_order_they_were_written(world):
    for n in range(6):
        if n % 2:
            await world.emit("p", n=n)
        else:
            await world.rows(
                f"""insert into outbox (type, subject, data, occurred_at, exchange, routing_key)
                    values ('task', 'p', '{{"data": {{"n": {n}}}}}', now(), 'x', 'y')"""
            )
    relay = Relay(world.db, to_broker, batch=2)
    while (await relay.run_once())["relayed"]:
        pass
    assert await _relayed(world) == list(range(6))


@pytest.mark.parametrize("microsecond", [0, 1, 120_000])
async def test_postgresql_writes_the_envelope_as_the_application_does(world, microsecond):
    subject, data = 'https://a.example/"ü\\\n\x01/☃?%s', '{"n": 1.10, "text": "é\\"%"}'
    time = datetime(2026, 11, 16, 2, 3, 4, microsecond, tzinfo=UTC)
    [row] = await world.rows(
        """insert into event (type, subject, data, occurred_at) values ('a.b', $1, $2::text::jsonb, $3)
           returning event_id, data::text as data, event_body(event) as body""",
        subject,
        data,
        time,
    )
    assert bytes(row["body"]) == envelope(
        event_id=row["event_id"],
        source="opilio",
        type_="a.b",
        subject=subject,
        time=time,
        data=row["data"],
    )
