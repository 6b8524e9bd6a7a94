"""Reports changed states: a snapshot for readers, a progress webhook for the application."""

from datetime import datetime
from typing import Protocol

import msgspec

from opilio.adapters.postgres import Database, Row, Session
from opilio.collector import completion
from opilio.collector.sql import queries as sql
from opilio.collector.state.postgres import versioned
from opilio.collector.state.protocol import VersionedState
from opilio.errors import Refused
from opilio.logs import get_logger

log = get_logger(__name__)
_encode = msgspec.json.Encoder().encode


class Report(Protocol):
    """How delivery accepts a report: in the caller's transaction; the newest version wins, the final one is last."""

    async def __call__(
        self,
        session: Session,
        *,
        subject: str,
        url: str,
        body: bytes,
        version: int,
        final: bool = False,
        trace_id: str | None = None,
    ) -> bool: ...


class ProgressReporter:
    """The report and its mark are one transaction, so that each version is reported once."""

    def __init__(self, database: Database, report: Report | None, *, batch: int = 500) -> None:
        self._db = database
        self._report = report
        self._batch = batch

    async def run_once(self) -> dict[str, int]:
        return {"reported": await self._db.transact(self._report_changes)}

    async def _report_changes(self, session: Session) -> int:
        if not await session.value(sql.lock_reporting):
            return 0
        rows = await session.fetch(sql.unreported_states, most=self._batch)
        changes = [versioned(row) for row in rows]
        if not changes:
            return 0
        changes = sorted(changes, key=lambda change: change.project_id)
        await session.execute(
            sql.store_snapshots,
            project_ids=[change.project_id for change in changes],
            versions=[change.version for change in changes],
            statuses=[change.state.status for change in changes],
            snapshots=[_encode(change.state).decode() for change in changes],
        )
        rows = await session.fetch(
            sql.project_webhooks, project_ids=[change.project_id for change in changes]
        )
        known = {row["project_id"]: row for row in rows}
        for change in changes:
            row = known.get(change.project_id)
            if row is not None and row["webhook_url"] is not None and self._report is not None:
                await self._report_to_webhook(session, change, row, self._report)
        await session.execute(
            sql.mark_reported,
            project_ids=[change.project_id for change in changes],
            versions=[change.version for change in changes],
        )
        return len(changes)

    async def _report_to_webhook(
        self, session: Session, change: VersionedState, row: Row, report: Report
    ) -> None:
        done = change.state.status == "DONE"
        at: datetime = row["finished_at"] if done else row["at"]
        try:
            await report(
                session,
                subject=f"project:{change.project_id}",
                url=row["webhook_url"],
                body=_encode(completion.progress(change.project_id, change.state, at)),
                version=change.version,
                final=done,
                trace_id=row["trace_id"],
            )
        except Refused as refused:  # a forbidden address: shown as a warning, the other reports go on
            log.warning("collector.webhook_refused", project_id=change.project_id, reason=refused.message)
            await session.execute(
                sql.add_warnings,
                project_ids=[change.project_id],
                platforms=[""],
                job_ids=[""],
                kinds=["webhook_refused"],
                messages=[refused.message],
            )
