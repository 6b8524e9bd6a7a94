"""Results that are prefetched take a bounded number of bytes, however large they are."""

import asyncio

import pytest

from opilio.bus import Ack
from opilio.collector.bounded_consumer import BoundedConsumer, prefetch_for
from opilio.contracts.topology import RESULTS, RESULTS_QUEUE, topology
from opilio.rabbitmq.bus import RabbitBus
from tests.collector.world import until

MIB = 1 << 20


@pytest.fixture
async def bus(rabbitmq_url):
    bus = await RabbitBus.connect(rabbitmq_url, topology())
    yield bus
    await bus.close()


@pytest.mark.parametrize(
    ("largest", "expected"), [(0, 200), (1_000, 200), (MIB, 64), (16 * MIB, 4), (90 * MIB, 2)]
)
def test_the_larger_the_fewer(largest, expected):
    assert prefetch_for(largest) == expected


async def test_never_more_than_one_prefetch_is_held(bus):
    """Not at the start, where no size is known, and not while the subscription is changed."""
    held: list[int] = []
    held_when_asking: list[int] = []
    finish = asyncio.Semaphore(0)
    grown = asyncio.Event()

    async def hold(message):
        held.append(len(message.body))
        await finish.acquire()
        held.remove(len(message.body))
        return Ack()

    class Watched:
        async def consume(self, *args, **options):
            held_when_asking.append(len(held))
            return await bus.consume(*args, **options)

    for _ in range(60):
        await bus.publish(RESULTS, "crawler.tiktok.result", bytes(MIB))
    consumer = BoundedConsumer(Watched(), RESULTS_QUEUE, hold, max_bytes=3 * MIB)
    assert consumer.prefetch == 2
    consumer.prefetch = 8  # as after small messages
    consumer.on_growth = grown.set
    await consumer.start()
    try:
        await asyncio.wait_for(grown.wait(), 20)  # known with the first message, not only at the next look
        await until(lambda: _is(len(held) == 8))
        adapted = asyncio.create_task(consumer.adapt())
        while not adapted.done():  # what the first subscription has taken is finished
            finish.release()
            await asyncio.sleep(0.02)
        assert adapted.result() == {"resubscribed": 1}
        assert consumer.prefetch == 3

        async def settled():
            return len(held) == 3 and finish.locked() and await bus.depth(RESULTS_QUEUE) > 0

        await until(settled)
        await asyncio.sleep(0.2)  # nothing more comes while three are held
        assert sum(held) == 3 * MIB
        assert held_when_asking == [0, 0]
    finally:
        for _ in range(60):
            finish.release()
        await consumer.close()


async def _is(value):
    return value
