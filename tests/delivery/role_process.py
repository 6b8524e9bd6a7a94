"""Delivery in a process of its own, to be killed: `python role_process.py DATABASE_URL AMQP_URL`."""

import asyncio
import sys
from datetime import timedelta

from opilio.adapters.postgres import Database
from opilio.contracts.topology import topology
from opilio.delivery.outbox.publish import Publisher
from opilio.delivery.outbox.relay import Relay
from opilio.delivery.outbox.routing import to_broker
from opilio.delivery.webhooks.client import WebhookClient
from opilio.delivery.webhooks.sender import Sender
from opilio.net.allowed_addresses import parse_allow
from opilio.rabbitmq.bus import RabbitBus


async def main(database_url: str, amqp_url: str) -> None:
    database = await Database.connect(database_url)
    bus = RabbitBus(amqp_url, topology())
    async with (
        WebhookClient(parse_allow("true"), limit=timedelta(seconds=1)) as client,
        asyncio.TaskGroup() as group,
    ):
        # A short lease, so that what a killed sender held is taken over while the test waits.
        sender = Sender(
            database, client, budget=timedelta(seconds=1), lease=timedelta(seconds=3), most_of_one=8
        )
        group.create_task(Relay(database, to_broker, batch=20).loop().run())
        group.create_task(Publisher(database, bus, batch=20).loop().run())
        group.create_task(sender.run())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
