"""Publishes what the relay queued for the broker, and deletes it once the broker has confirmed."""

from opilio.adapters.postgres import Database, Session
from opilio.bus import Bus, Outgoing
from opilio.contracts.topology import EVENTS
from opilio.delivery.outbox.routing import dead_letter_unpublished
from opilio.delivery.sql import QUERIES
from opilio.loop import Counts, Loop

CHANNEL = "opilio_outbound"


class Publisher:
    """Safe to run concurrently: rows stay locked until they are confirmed and their deletion commits."""

    def __init__(self, database: Database, bus: Bus, *, events: str = EVENTS, batch: int = 500) -> None:
        self._db = database
        self._bus = bus
        self._events = events
        self._batch = batch

    def loop(self) -> Loop:
        return Loop("publisher", 5, self.run_once, drain=True, wake_on=[CHANNEL], notifications=self._db)

    async def run_once(self) -> Counts:
        return {"published": await self._db.transact(self._publish)}

    async def _publish(self, session: Session) -> int:
        rows = await session.fetch(QUERIES.claim_outbound, most=self._batch)
        if not rows:
            return 0
        messages = [
            Outgoing(
                row["exchange"],
                row["routing_key"],
                row["body"],
                row["headers"],
                row["message_id"],
                row["correlation_id"],
            )
            for row in rows
        ]
        results = await self._bus.publish_many(messages)
        await dead_letter_unpublished(session, messages, results, events=self._events)
        await session.execute(QUERIES.delete_outbound, seqs=[row["seq"] for row in rows])
        return len(rows)
