"""The delivery role: the outbox to the bus and to webhooks."""

import asyncio

from opilio.delivery.role import DeliveryRole
from opilio.runtime.bootstrap import Opilio, open_bus
from opilio.runtime.until import until


async def serve(opilio: Opilio, stop: asyncio.Event) -> None:
    settings = opilio.settings
    async with open_bus(settings, opilio.database) as bus:
        role = DeliveryRole(opilio.database, bus, settings.topology, allow=settings.webhook_allow)
        await until(stop, role.run())
