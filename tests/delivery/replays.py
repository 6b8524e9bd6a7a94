"""A dead letter before and after its replay, for the tests of everything that can replay one."""

import asyncio
from uuid import UUID

from opilio.adapters.local_bus import LocalBus
from opilio.adapters.postgres import Database
from opilio.bus import Ack, DeadLetter, Message, Verdict
from opilio.contracts.topology import RESULTS, RESULTS_QUEUE, topology
from opilio.runtime.bootstrap import wire
from opilio.runtime.settings import Settings

ROUTING_KEY = "crawler.tiktok.result"
HEADERS = {"x-platform": "tiktok", "x-job-id": "p1-brand-0", "x-attempt": 2, "x-trace-id": "t1"}


async def one_dead_letter(database: Database, settings: Settings) -> UUID:
    """A result that its consumer refused."""
    bus = await LocalBus.connect(database, topology())
    try:
        await bus.publish(
            RESULTS, ROUTING_KEY, b"body", headers=HEADERS, message_id="m1", correlation_id="p1-brand-0"
        )
        await _consume_one(bus, DeadLetter("cannot be attributed"))
        async with asyncio.timeout(10):
            while not (found := await wire(settings, database).dead_letters.page()).items:
                await asyncio.sleep(0.02)
        return found.items[0].id
    finally:
        await bus.close()


async def assert_replayed_as_it_was(database: Database) -> None:
    """The consumer sees the message as it was published first."""
    bus = await LocalBus.connect(database, topology())
    try:
        message = await _consume_one(bus, Ack())
    finally:
        await bus.close()
    assert (message.exchange, message.routing_key) == (RESULTS, ROUTING_KEY)
    assert {name: message.headers.get(name) for name in HEADERS} == HEADERS
    assert (message.body, message.message_id, message.correlation_id) == (b"body", "m1", "p1-brand-0")


async def _consume_one(bus: LocalBus, verdict: Verdict) -> Message:
    got: asyncio.Queue[Message] = asyncio.Queue()

    async def handle(message: Message) -> Verdict:
        got.put_nowait(message)
        return verdict

    consumer = await bus.consume(RESULTS_QUEUE, handle)
    try:
        async with asyncio.timeout(10):
            return await got.get()
    finally:
        await consumer.close()
