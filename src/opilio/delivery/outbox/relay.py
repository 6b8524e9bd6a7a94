"""Moves events from the outbox to the event log, to webhooks and to the bus, in one transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opilio.adapters.postgres import Database, Row, Session
from opilio.bus import Outgoing
from opilio.clock import Clock
from opilio.contracts.topology import EVENTS
from opilio.delivery.outbox.envelope import envelope
from opilio.delivery.outbox.routing import OutboxMessage, Route
from opilio.delivery.sql import QUERIES
from opilio.loop import Counts, Loop

CHANNEL = "opilio_outbox"


@dataclass(frozen=True, slots=True)
class RelayedEvent:
    """An outbox row, and the bytes that everybody gets."""

    row: Row
    body: bytes


class Relay:
    """Safe to run concurrently: each takes rows that no other one holds."""

    def __init__(
        self,
        database: Database,
        route: Route,
        *,
        source: str = "opilio",
        exchange: str = EVENTS,
        batch: int = 500,
        clock: Clock | None = None,
    ) -> None:
        self._db = database
        self._route = route
        self._source = source
        self._exchange = exchange
        self._batch = batch
        self._clock = clock or Clock()

    def loop(self) -> Loop:
        return Loop("relay", 5, self.run_once, drain=True, wake_on=[CHANNEL], notifications=self._db)

    async def run_once(self) -> Counts:
        """Relays one batch of rows."""
        return {"relayed": await self._db.transact(self._relay)}

    async def _relay(self, session: Session) -> int:
        rows = await session.fetch(QUERIES.claim_outbox, most=self._batch)
        if not rows:
            return 0
        events = [RelayedEvent(row, self._envelope(row)) for row in rows if row["exchange"] is None]
        await self._log_and_fan_out(session, events)
        await self._route(session, self._outgoing(rows, events))
        await session.execute(QUERIES.delete_outbox, seqs=[row["seq"] for row in rows])
        return len(rows)

    def _envelope(self, row: Row) -> bytes:
        return envelope(
            event_id=row["event_id"],
            source=self._source,
            type_=row["type"],
            subject=row["subject"],
            time=row["occurred_at"],
            data=row["data"],
        )

    def _outgoing(self, rows: Sequence[Row], events: Sequence[RelayedEvent]) -> list[OutboxMessage]:
        bodies = {event.row["seq"]: event.body for event in events}
        return [OutboxMessage(row["seq"], row["subject"], self._message(row, bodies)) for row in rows]

    def _message(self, row: Row, bodies: Mapping[int, bytes]) -> Outgoing:
        if row["exchange"] is None:
            return Outgoing(self._exchange, row["type"], bodies[row["seq"]], {}, str(row["event_id"]))
        return Outgoing(
            row["exchange"],
            row["routing_key"],
            row["data"].encode(),
            row["headers"] or {},
            str(row["event_id"]),
            row["correlation_id"],
        )

    async def _log_and_fan_out(self, session: Session, events: Sequence[RelayedEvent]) -> None:
        if not events:
            return
        now = self._clock.now()  # None: the database's, which senders compare with
        columns = _columns(events)
        seqs = [event.row["seq"] for event in events]
        await session.fetch(
            QUERIES.log_events,
            **columns,
            seqs=seqs,
            times=[event.row["occurred_at"] for event in events],
            bodies=[event.body for event in events],
            now=now,
        )
        # A statement of its own takes the locks: the next one sees what others committed meanwhile.
        gates = await session.fetch(QUERIES.lock_gates_for_types, types=list(set(columns["types"])))
        if not gates:
            return
        endpoint_ids = [gate["endpoint_id"] for gate in gates]
        await session.execute(QUERIES.fan_out, **columns, seqs=seqs, endpoint_ids=endpoint_ids, now=now)
        await session.fetch(QUERIES.open_gates, endpoint_ids=endpoint_ids, now=now)


def _columns(events: Sequence[RelayedEvent]) -> dict[str, list[Any]]:
    return {
        "event_ids": [event.row["event_id"] for event in events],
        "types": [event.row["type"] for event in events],
        "subjects": [event.row["subject"] for event in events],
    }
