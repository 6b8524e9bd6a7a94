"""Every dead letter can be seen and sent again, whatever bus it died on."""

import asyncio
from dataclasses import dataclass
from uuid import UUID

import pytest

from opilio.bus import Ack, Bus, DeadLetter, Message
from opilio.contracts.topology import RESULTS_QUEUE, topology
from opilio.delivery.dead_letters import DeadLetterIndex, DeadLetters, ReplayedDeadLetters
from opilio.delivery.outbox.publish import Publisher
from opilio.delivery.webhooks.client import WebhookClient
from opilio.errors import Conflict, NotFound
from opilio.rabbitmq.bus import RabbitBus
from opilio.runtime.bootstrap import open_bus, wire
from tests.delivery.receiver import Receiver, Reply
from tests.delivery.world import ANYWHERE, World


@dataclass
class Delivery:
    bus: Bus
    dead_letters: DeadLetters


@pytest.fixture(params=["rabbitmq", "local"])
async def role(request, settings, db):
    amqp_url = request.getfixturevalue("rabbitmq_url") if request.param == "rabbitmq" else None
    settings = settings.with_values(amqp_url=amqp_url)
    async with open_bus(settings, db) as bus:
        yield Delivery(bus, wire(settings, db).dead_letters)


async def _some(page, seconds=10):
    async with asyncio.timeout(seconds):
        while not (found := await page()).items:
            await asyncio.sleep(0.02)
    return found.items


async def test_a_dead_letter_is_listed_shown_and_sent_again(role, db):
    index = None
    if isinstance(role.bus, RabbitBus):
        index = await DeadLetterIndex(db, role.bus, topology()).start()
    verdict = DeadLetter("cannot be attributed")
    got: asyncio.Queue[Message] = asyncio.Queue()

    async def handle(message: Message):
        got.put_nowait(message)
        return verdict

    await role.bus.consume(RESULTS_QUEUE, handle)
    await role.bus.publish(
        "collector.results",
        "crawler.tiktok.result",
        b"\xff\xfe",
        message_id="m1",
        correlation_id="job-1",
        headers={"x-platform": "tiktok"},
    )
    await got.get()
    [letter] = await _some(role.dead_letters.page)
    assert (letter.queue, letter.source) == ("collector.results.dlq", "collector.results")
    assert letter.reason == "cannot be attributed"
    assert (letter.exchange, letter.routing_key) == ("collector.results", "crawler.tiktok.result")
    assert (letter.message_id, letter.correlation_id, letter.size) == ("m1", "job-1", 2)
    assert letter.headers["x-platform"] == "tiktok"
    shown = await role.dead_letters.get(letter.id)
    assert (shown.body, shown.body_encoding) == ("//4=", "base64")
    verdict = Ack()
    replayed = await role.dead_letters.replay(letter.id, actor="tests")
    assert replayed.replayed_at is not None
    if isinstance(role.bus, RabbitBus):
        assert await Publisher(db, role.bus).run_once() == {"published": 1}
        assert await ReplayedDeadLetters(db, role.bus).run_once() == {"removed": 1}
        assert await ReplayedDeadLetters(db, role.bus).run_once() == {"removed": 0}
        assert await role.bus.depth("collector.results.dlq") == 0
        await index.close()
    async with asyncio.timeout(10):
        again = await got.get()
    assert (again.body, again.message_id, again.headers["retry"]) == (b"\xff\xfe", "m1", True)
    assert "x-reason" not in again.headers
    assert (again.exchange, again.routing_key) == ("collector.results", "crawler.tiktok.result")
    assert (again.headers["x-platform"], again.correlation_id) == ("tiktok", "job-1")
    assert (await role.dead_letters.page()).items == []
    with pytest.raises(Conflict):
        await role.dead_letters.replay(letter.id, actor="tests")
    with pytest.raises(NotFound):
        await role.dead_letters.get(UUID(int=1))


async def test_a_webhook_that_was_given_up_is_sent_again_with_its_id(settings, db):
    role = wire(settings, db)
    async with Receiver() as receiver, WebhookClient(ANYWHERE) as client:
        world = World(db, client)
        await world.subscribe(receiver.url())
        receiver.usual = Reply(422, body=b"no")
        await world.emit(n=1)
        await world.relay_all()
        await world.send_all()
        while not (found := await role.dead_letters.page()).items:
            await world.pass_(hours=1)
        receiver.usual = Reply()
        [letter] = found.items
        assert letter.queue == "webhooks.dlq"
        await role.dead_letters.replay(letter.id, actor="tests")
        await world.pass_(seconds=0)
        assert receiver.got[-1].id == receiver.got[0].id == letter.message_id
        assert receiver.got[-1].body == receiver.got[0].body
        [row] = await world.rows("select state from webhook_delivery order by delivery_id desc limit 1")
        assert row["state"] == "delivered"
