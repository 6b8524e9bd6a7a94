"""The delivery role: the outbox to the bus and to webhooks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from opilio.adapters.local_bus import LocalBus
from opilio.bus import Bus
from opilio.delivery.dead_letters import DeadLetterIndex, ReplayedDeadLetters
from opilio.delivery.outbox.publish import Publisher
from opilio.delivery.outbox.relay import Relay
from opilio.delivery.progress import ProgressThrottle
from opilio.delivery.retention import DeliveryRetention
from opilio.delivery.webhooks.backfill import Backfill
from opilio.delivery.webhooks.client import WebhookClient
from opilio.delivery.webhooks.sender import Sender
from opilio.loop import Loop, run_loops
from opilio.runtime.bootstrap import Opilio, open_bus, route_to_bus

if TYPE_CHECKING:
    from opilio.rabbitmq.bus import RabbitBus


async def serve(opilio: Opilio, stop: asyncio.Event) -> None:
    """Any number of processes may run it."""
    async with (
        open_bus(opilio.settings, opilio.database) as bus,
        WebhookClient(opilio.settings.webhook_allow) as client,
        _dead_letter_index(opilio, bus),
        asyncio.TaskGroup() as group,
    ):
        group.create_task(run_loops(_loops(opilio, bus), stop))
        group.create_task(Sender(opilio.database, client).run(stop))


def _loops(opilio: Opilio, bus: "LocalBus | RabbitBus") -> list[Loop]:
    database = opilio.database
    loops = [
        Relay(database, route_to_bus(opilio.settings, database)).loop(),
        ProgressThrottle(database).loop(),
        DeliveryRetention(database).loop(),
        Backfill(database).loop(),
    ]
    if not isinstance(bus, LocalBus):
        loops.append(Publisher(database, bus).loop())
        loops.append(ReplayedDeadLetters(database, bus).loop())
    return loops


@asynccontextmanager
async def _dead_letter_index(opilio: Opilio, bus: Bus) -> AsyncIterator[None]:
    """The local bus keeps its dead letters in the list already; the broker's are copied there."""
    if opilio.settings.amqp_url is None:
        yield
        return
    index = await DeadLetterIndex(opilio.database, bus, opilio.settings.topology).start()
    try:
        yield
    finally:
        await index.close()
