"""Hands events from the log, and messages from the outbox, to webhooks and to the bus, in one transaction."""

from collections.abc import Sequence
from typing import Any

from opilio.adapters.postgres import Database, Row, Session
from opilio.bus import Outgoing
from opilio.clock import Clock
from opilio.contracts.topology import EVENTS
from opilio.delivery.outbox.routing import OutboxMessage, Route
from opilio.delivery.sql import QUERIES
from opilio.loop import Counts, Loop

CHANNEL = "opilio_outbox"


class Relay:
    """Safe to run concurrently: one works at a time, the next goes on from its position."""

    def __init__(
        self,
        database: Database,
        route: Route,
        *,
        exchange: str = EVENTS,
        batch: int = 500,
        clock: Clock | None = None,
    ) -> None:
        self._db = database
        self._route = route
        self._exchange = exchange
        self._batch = batch
        self._clock = clock or Clock()

    def loop(self) -> Loop:
        return Loop("relay", 5, self.run_once, drain=True, wake_on=[CHANNEL], notifications=self._db)

    async def run_once(self) -> Counts:
        """Relays one batch; nothing while another relay works."""
        return {"relayed": await self._db.transact(self._relay)}

    async def _relay(self, session: Session) -> int:
        position = await session.row(QUERIES.lock_position)
        if position is None:
            return 0
        await session.execute(QUERIES.log_outbox_events, now=self._clock.now())
        rows = await session.fetch(QUERIES.claim_events, most=self._batch)
        if rows:
            await self._fan_out(session, [row for row in rows if row["exchange"] is None])
            await self._route(session, [self._outgoing(row) for row in rows])
            await session.execute(
                QUERIES.delete_outbox, seqs=[row["seq"] for row in rows if row["exchange"] is not None]
            )
        await self._save(session, position, rows)
        return len(rows)

    async def _save(self, session: Session, position: Row, rows: Sequence[Row]) -> None:
        """Gaps are given up once nobody can fill them any more and everything below them was handed on."""
        all_read = len(rows) < self._batch or rows[-1]["seq"] > (position["missed_upto"] or 0)
        settle = position["settled"] and all_read
        note = position["has_gaps"] and (position["unnoted"] or settle)
        if rows or note:
            await session.execute(
                QUERIES.save_position, seqs=[row["seq"] for row in rows], settle=settle, note=note
            )

    def _outgoing(self, row: Row) -> OutboxMessage:
        return OutboxMessage(row["seq"], row["subject"], self._message(row))

    def _message(self, row: Row) -> Outgoing:
        if row["exchange"] is None:
            return Outgoing(self._exchange, row["type"], row["body"], {}, str(row["event_id"]))
        return Outgoing(
            row["exchange"],
            row["routing_key"],
            row["data"].encode(),
            row["headers"] or {},
            str(row["event_id"]),
            row["correlation_id"],
        )

    async def _fan_out(self, session: Session, events: Sequence[Row]) -> None:
        if not events:
            return
        await session.fetch(QUERIES.announce_events)
        columns = _columns(events)
        # A statement of its own takes the locks: the next one sees what others committed meanwhile.
        gates = await session.fetch(QUERIES.lock_gates_for_types, types=list(set(columns["types"])))
        if not gates:
            return
        now = self._clock.now()  # None: the database's, which senders compare with
        endpoint_ids = [gate["endpoint_id"] for gate in gates]
        await session.execute(QUERIES.fan_out, **columns, endpoint_ids=endpoint_ids, now=now)
        await session.fetch(QUERIES.open_gates, endpoint_ids=endpoint_ids, now=now)


def _columns(events: Sequence[Row]) -> dict[str, list[Any]]:
    return {
        "event_ids": [event["event_id"] for event in events],
        "types": [event["type"] for event in events],
        "subjects": [event["subject"] for event in events],
        "seqs": [event["seq"] for event in events],
        "logged": [event["logged_at"] for event in events],
    }
