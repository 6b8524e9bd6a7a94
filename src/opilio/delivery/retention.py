"""Keeps history for as long as it is wanted: prepares the days to come, drops those that are over."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from opilio.adapters.postgres import Database, Session
from opilio.clock import Clock
from opilio.delivery.outbox.routing import sql
from opilio.loop import Counts, Loop

_BATCH = 5000


@dataclass(frozen=True, slots=True)
class Retention:
    """Events can be replayed for as long as they are kept: longer than the three days of retries."""

    events: timedelta = timedelta(days=30)
    attempts: timedelta = timedelta(days=30)
    deliveries: timedelta = timedelta(days=7)
    replayed_dead_letters: timedelta = timedelta(days=7)
    dead_letters: timedelta = timedelta(days=90)

    def __post_init__(self) -> None:
        if self.events < timedelta(days=4):
            raise ValueError("events must be kept for at least four days: retries need them for three")


class Pruning:
    def __init__(
        self, database: Database, retention: Retention | None = None, *, clock: Clock | None = None
    ) -> None:
        self._db = database
        self._keep = retention or Retention()
        self._clock = clock or Clock()

    def loop(self) -> Loop:
        return Loop("delivery_retention", 3600, self.run_once, drain=True)

    async def run_once(self) -> Counts:
        """Counts the rows and days dropped; nothing while another process does it."""
        return {"dropped": await self._db.transact(self._prune)}

    async def _prune(self, session: Session) -> int:
        if not await session.value(sql.try_alone):
            return 0
        now = self._clock.now() or datetime.now(UTC)
        keep = self._keep
        await session.fetch(sql.prepare_partitions, now=now)
        days = await session.value(sql.drop_events, before=now - keep.events)
        days += await session.value(sql.drop_attempts, before=now - keep.attempts)
        rows: int = await session.value(sql.prune_unprepared, before=now - max(keep.events, keep.attempts))
        rows += await session.execute(sql.prune_deliveries, before=now - keep.deliveries, most=_BATCH)
        rows += await session.execute(
            sql.prune_dead_letters,
            replayed_before=now - keep.replayed_dead_letters,
            before=now - keep.dead_letters,
            most=_BATCH,
        )
        rows += await session.execute(sql.prune_progress, before=now - keep.deliveries)
        return int(days) + rows
