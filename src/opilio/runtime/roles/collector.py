"""The collector role: sends tasks, counts results, reports progress."""

import asyncio

from opilio.collector.collector import Collector
from opilio.delivery.progress import ProgressReports
from opilio.delivery.webhooks import address
from opilio.runtime.bootstrap import Opilio, open_bus


async def serve(opilio: Opilio, stop: asyncio.Event) -> None:
    settings = opilio.settings
    async with open_bus(settings, opilio.database) as bus:
        collector = Collector(
            opilio.database,
            bus,
            settings.collector,
            redis_url=settings.redis_url,
            report=ProgressReports(allow=settings.webhook_allow).report,
            check_url=lambda url: address.checked(url, settings.webhook_allow),
        )
        try:
            await collector.run(stop)
        finally:
            await collector.close()
