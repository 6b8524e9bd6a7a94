"""Drops what was counted for projects that are long done: it only guards against repetitions."""

from datetime import timedelta

from opilio.adapters.postgres import Database, Session
from opilio.collector.state.postgres import sql
from opilio.collector.state.protocol import StateStore

# A result cannot come back after this: brokers and dead letters are looked after within days.
KEPT = timedelta(days=30)


class Forgetting:
    def __init__(
        self, database: Database, state: StateStore, *, kept: timedelta = KEPT, batch: int = 500
    ) -> None:
        self._db = database
        self._state = state
        self._kept = kept
        self._batch = batch

    async def run_once(self) -> dict[str, int]:
        return {"forgotten": await self._db.transact(self._forget)}

    async def _forget(self, session: Session) -> int:
        rows = await session.fetch(sql.finished_projects, age=self._kept.total_seconds(), most=self._batch)
        project_ids = [row["project_id"] for row in rows]
        if project_ids:
            await self._state.forget(project_ids)
            await session.execute(sql.mark_forgotten, project_ids=project_ids)
        return len(project_ids)
