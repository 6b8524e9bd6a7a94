"""The delivery side on one database, with a clock that a test can move."""

from datetime import UTC, datetime, timedelta

import msgspec

from opilio.adapters.postgres import Database
from opilio.clock import FixedClock
from opilio.contracts.webhooks import EndpointCreate
from opilio.delivery.outbox.relay import Relay
from opilio.delivery.outbox.routing import to_broker
from opilio.delivery.webhooks.backfill import Backfill
from opilio.delivery.webhooks.client import WebhookClient
from opilio.delivery.webhooks.endpoints import Webhooks
from opilio.delivery.webhooks.sender import Sender
from opilio.loop import drain
from opilio.net.allowed_addresses import parse_allow

ANYWHERE = parse_allow("true")


class World:
    def __init__(self, db: Database, client: WebhookClient) -> None:
        self.db = db
        self.clock = FixedClock(datetime.now(UTC))
        self.webhooks = Webhooks(db, allow=ANYWHERE, clock=self.clock)
        self.relay = Relay(db, to_broker, clock=self.clock)
        self.backfill = Backfill(db, batch=2, clock=self.clock)
        self.sender = Sender(db, client, clock=self.clock)

    async def subscribe(self, url: str, events=("crawl.job.*",), **more):
        return await self.webhooks.create(EndpointCreate(url=url, events=list(events), **more), actor="tests")

    async def emit(self, subject="s1", type_="crawl.job.completed", **data) -> None:
        await self.emit_many([(subject, type_, data)])

    async def emit_many(self, events) -> None:
        async with self.db.session() as session:
            await session.connection.executemany(
                "insert into event (type, subject, data, occurred_at, logged_at) values ($1, $2, $3, $4, $4)",
                [(type_, subject, data, self.clock.at) for subject, type_, data in events],
            )

    async def relay_all(self) -> None:
        await drain(self.relay.run_once)

    async def send_all(self) -> int:
        """Sends until nothing is due at this moment."""
        await drain(self.backfill.run_once)
        return await drain(self.sender.run_once)

    async def pass_(self, **time: float) -> int:
        self.clock.at += timedelta(**time)
        return await self.send_all()

    async def rows(self, query: str, *args):
        async with self.db.session() as session:
            return await session.connection.fetch(query, *args)


def number(got) -> int:
    return msgspec.json.decode(got.body)["data"]["n"]
