"""Drops the recorded results of projects that finished long ago; their figures stay."""

from datetime import timedelta

from opilio.adapters.postgres import Database, Session
from opilio.collector.sql import queries as sql

# After this time no result is expected to be redelivered or replayed.
KEPT = timedelta(days=30)


class ProjectRetention:
    def __init__(self, database: Database, *, kept: timedelta = KEPT, batch: int = 100) -> None:
        self._db = database
        self._kept = kept
        self._batch = batch

    async def run_once(self) -> dict[str, int]:
        return {"dropped": await self._db.transact(self._drop)}

    async def _drop(self, session: Session) -> int:
        rows = await session.fetch(sql.finished_projects, age=self._kept.total_seconds(), most=self._batch)
        project_ids = [row["project_id"] for row in rows]
        if project_ids:
            await session.execute(sql.drop_results, project_ids=project_ids)
            await session.execute(sql.drop_batches, project_ids=project_ids)
            await session.execute(sql.mark_results_dropped, project_ids=project_ids)
        return len(project_ids)
