"""Everything that delivery runs in a process, wired for a bus and started together."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from opilio.adapters.local_bus import LocalBus
from opilio.adapters.postgres import Database
from opilio.adapters.rabbitmq import RabbitBus
from opilio.contracts.topology import Topology
from opilio.delivery.dead_letters import DeadLetterIndex, DeadLetters
from opilio.delivery.outbox.publish import Publisher
from opilio.delivery.outbox.relay import Relay
from opilio.delivery.outbox.retention import Pruning, Retention
from opilio.delivery.outbox.routing import Route, to_broker, to_local_bus
from opilio.delivery.progress import ProgressRelease
from opilio.delivery.webhooks.client import Post
from opilio.delivery.webhooks.sender import Sender
from opilio.net.allowed_addresses import PUBLIC_ONLY, AllowList


@dataclass(slots=True)
class DeliveryRole:
    """The loops of `opilio run delivery`; any number of processes may run them."""

    database: Database
    bus: LocalBus | RabbitBus
    topology: Topology
    allow: AllowList = PUBLIC_ONLY
    source: str = "opilio"
    retention: Retention = field(default_factory=Retention)

    @property
    def route(self) -> Route:
        """The road from the outbox to the bus."""
        return to_local_bus(self.bus) if isinstance(self.bus, LocalBus) else to_broker

    @property
    def dead_letters(self) -> DeadLetters:
        forget = self.bus.remove if isinstance(self.bus, RabbitBus) else None
        return DeadLetters(self.database, self.route, forget)

    async def run(self) -> None:
        """Until cancelled."""
        async with Post(self.allow) as post:
            work: list[Coroutine[Any, Any, None]] = [
                Relay(self.database, self.route, source=self.source).loop().run(),
                Sender(self.database, post).run(),
                ProgressRelease(self.database).loop().run(),
                Pruning(self.database, self.retention).loop().run(),
            ]
            index = None
            if isinstance(self.bus, RabbitBus):
                work.append(Publisher(self.database, self.bus).loop().run())
                index = await DeadLetterIndex(self.database, self.bus, self.topology).start()
            try:
                async with asyncio.TaskGroup() as group:
                    for coroutine in work:
                        group.create_task(coroutine)
            finally:
                if index is not None:
                    await index.close()
