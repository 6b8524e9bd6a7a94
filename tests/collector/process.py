"""A collector in a process of its own, as production runs it: to be killed.

python -m collector.process DATABASE_URL AMQP_URL REDIS_URL
"""

import asyncio
import sys

import structlog

from opilio.adapters.postgres import Database
from opilio.collector.collector import Collector
from opilio.collector.config import Config
from opilio.contracts.topology import topology
from opilio.delivery.progress import ProgressReports
from opilio.errors import Unavailable
from opilio.net.allowed_addresses import parse_allow
from opilio.rabbitmq.bus import RabbitBus


async def connected(amqp_url: str) -> RabbitBus:
    while True:
        try:
            return await RabbitBus.connect(amqp_url, topology())
        except Unavailable:
            await asyncio.sleep(0.2)


# Standard output is for the one line that the test reads: a pipe that nobody empties stops the process that fills it.
structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))


async def main(database_url: str, amqp_url: str, redis_url: str) -> None:
    database = await Database.connect(database_url)
    bus = await connected(amqp_url)
    reports = ProgressReports(allow=parse_allow("true"))
    collector = Collector(database, bus, Config(), redis_url=redis_url, report=reports.report)
    print("ready", flush=True)
    await collector.run(asyncio.Event())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
