"""Tells of states that changed: the project's snapshot for readers, a progress webhook for the application."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import msgspec
import structlog

from opilio.adapters.postgres import Database, Row, Session
from opilio.collector import tally as counting
from opilio.collector.state.postgres import sql
from opilio.collector.state.protocol import Change, StateStore
from opilio.errors import Refused

log = structlog.get_logger(__name__)
_encode = msgspec.json.Encoder().encode


class Report(Protocol):
    """How delivery takes progress: in the caller's transaction, newest version wins, the final one is the last."""

    async def __call__(
        self, session: Session, *, subject: str, url: str, body: bytes, version: int, final: bool = False
    ) -> bool: ...


class Telling:
    """Repeats itself rather than forgetting: versions make a repetition harmless."""

    def __init__(
        self, database: Database, state: StateStore, report: Report | None, *, batch: int = 500
    ) -> None:
        self._db = database
        self._state = state
        self._report = report
        self._batch = batch

    async def run_once(self) -> dict[str, int]:
        changes = await self._state.changes(self._batch)
        if not changes or not await self._db.transact(lambda session: self._tell(session, changes)):
            return {"told": 0}
        await self._state.told(changes)
        return {"told": len(changes)}

    async def _tell(self, session: Session, changes: Sequence[Change]) -> bool:
        if not await session.value(sql.only_one_tells):
            return False
        changes = sorted(changes, key=lambda change: change.project_id)
        await session.execute(
            sql.keep_snapshots,
            project_ids=[change.project_id for change in changes],
            versions=[change.version for change in changes],
            statuses=[change.state.status for change in changes],
            snapshots=[_encode(change.state).decode() for change in changes],
        )
        rows = await session.fetch(
            sql.projects_to_tell, project_ids=[change.project_id for change in changes]
        )
        known = {row["project_id"]: row for row in rows}
        for change in changes:
            row = known.get(change.project_id)
            if row is not None and row["webhook_url"] is not None and self._report is not None:
                await self._tell_webhook(session, change, row, self._report)
        return True

    async def _tell_webhook(self, session: Session, change: Change, row: Row, report: Report) -> None:
        done = change.state.status == "DONE"
        at: datetime = row["finished_at"] if done else row["at"]
        try:
            await report(
                session,
                subject=f"project:{change.project_id}",
                url=row["webhook_url"],
                body=_encode(counting.progress(change.project_id, change.state, at)),
                version=change.version,
                final=done,
            )
        except Refused as refused:  # an address that may not be reached: known to a person, and no loop's end
            log.warning("collector.webhook_refused", project_id=change.project_id, reason=refused.message)
            await session.execute(
                sql.warn,
                project_ids=[change.project_id],
                platforms=[""],
                job_ids=[""],
                kinds=["webhook_refused"],
                messages=[refused.message],
            )
