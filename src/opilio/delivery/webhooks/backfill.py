"""Queues the events that an endpoint missed while it was paused, in steps that hold its gate for a moment."""

from opilio.adapters.postgres import Database, Session
from opilio.clock import Clock
from opilio.delivery.sql import QUERIES
from opilio.loop import Counts, Loop

CHANNEL = "opilio_webhooks"
_BATCH = 1000


class Backfill:
    """Safe to run concurrently. The relay leaves events above an endpoint's position to it, so that order holds."""

    def __init__(self, database: Database, *, batch: int = _BATCH, clock: Clock | None = None) -> None:
        self._db = database
        self._batch = batch
        self._clock = clock or Clock()

    def loop(self) -> Loop:
        return Loop(
            "webhook_backfill", 5, self.run_once, drain=True, wake_on=[CHANNEL], notifications=self._db
        )

    async def run_once(self) -> Counts:
        """One step of one endpoint."""
        return {"looked_at": await self._db.transact(self._step)}

    async def _step(self, session: Session) -> int:
        gate = await session.row(QUERIES.claim_backfill)
        if gate is None:
            return 0
        now = self._clock.now()
        done = await session.row(QUERIES.backfill_step, most=self._batch, now=now, **dict(gate))
        assert done is not None
        if done["queued"]:
            await session.fetch(QUERIES.open_gates, endpoint_ids=[gate["endpoint_id"]], now=now)
        return int(done["looked_at"])
