"""Drops old events, attempts, deliveries and dead letters, and prepares the partitions of the next days."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from opilio.adapters.postgres import Database, Statement
from opilio.adapters.postgres.partitions import Partitions
from opilio.clock import Clock
from opilio.delivery.sql import QUERIES
from opilio.loop import Counts, Loop

_BATCH = 1000


@dataclass(frozen=True, slots=True)
class KeepFor:
    """How long each kind is kept. Events can be replayed for that long: longer than the three days of retries."""

    events: timedelta = timedelta(days=30)
    attempts: timedelta = timedelta(days=30)
    deliveries: timedelta = timedelta(days=7)
    replayed_dead_letters: timedelta = timedelta(days=7)
    dead_letters: timedelta = timedelta(days=90)

    def __post_init__(self) -> None:
        if self.events < timedelta(days=4):
            raise ValueError("events must be kept for at least four days: retries need them for three")


class DeliveryRetention:
    """One process at a time; every step is a short transaction of its own."""

    def __init__(
        self, database: Database, keep: KeepFor | None = None, *, clock: Clock | None = None
    ) -> None:
        self._db = database
        self._keep = keep or KeepFor()
        self._clock = clock or Clock()
        self._partitions = [
            (Partitions(database, "event", "day"), self._keep.events),
            (Partitions(database, "webhook_attempt", "day"), self._keep.attempts),
        ]

    def loop(self) -> Loop:
        return Loop("delivery_retention", 3600, self.run_once)

    async def run_once(self) -> Counts:
        """Counts what was dropped; nothing while another process does it."""
        async with self._db.try_lock("opilio.delivery.retention") as mine:
            return await self._drop_old() if mine else {}

    async def _drop_old(self) -> Counts:
        now = self._clock.now() or datetime.now(UTC)
        days = 0
        for partitions, keep in self._partitions:
            await partitions.prepare(now)
            days += len(await partitions.drop_before(now - keep))
        keep_for = self._keep
        return {
            "days": days,
            "deliveries": await self._delete(QUERIES.delete_old_deliveries, before=now - keep_for.deliveries),
            "dead_letters": await self._delete(
                QUERIES.delete_old_dead_letters,
                replayed_before=now - keep_for.replayed_dead_letters,
                before=now - keep_for.dead_letters,
            ),
            "progress": await self._delete(QUERIES.delete_old_progress, before=now - keep_for.deliveries),
        }

    async def _delete(self, statement: Statement, **params: Any) -> int:
        """Deletes in small batches, each its own transaction, so that nobody waits for the locks."""
        total = 0
        while deleted := await self._db.execute(statement, most=_BATCH, **params):
            total += deleted
        return total
