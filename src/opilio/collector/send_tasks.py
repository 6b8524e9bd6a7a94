"""Hands recorded tasks to the bus. A task is its own outbox row: it stays unsent until the bus has confirmed."""

from collections.abc import Sequence
from datetime import timedelta

import msgspec
import structlog

from opilio.adapters.postgres import Database, Row, Session
from opilio.bus import Bus, Outgoing
from opilio.collector import metrics as measures
from opilio.collector import tally as counting
from opilio.collector.config import Config
from opilio.collector.dispatch import Dispatch
from opilio.collector.state.postgres import sql
from opilio.collector.state.protocol import StateStore
from opilio.contracts.collector import CrawlTask

log = structlog.get_logger(__name__)
CHANNEL = "opilio_tasks"
_PUT_OFF_SECONDS = 30.0
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(CrawlTask).decode


class Sender:
    """Any number of them may run. One that dies after the confirm sends again: crawlers know a task by its key."""

    def __init__(
        self,
        database: Database,
        bus: Bus,
        state: StateStore,
        dispatch: Dispatch,
        config: Config,
        *,
        batch: int = 500,
    ) -> None:
        self._db = database
        self._bus = bus
        self._state = state
        self._dispatch = dispatch
        self._config = config
        self._batch = batch

    async def run_once(self) -> dict[str, int]:
        """Sends one batch and answers how much it held."""
        await self._dispatch.open_projects()
        rows = await self._db.transact(self._send)
        begun = sorted({row["project_id"] for row in rows if row["project_id"] and row["attempt"] == 1})
        if begun:
            await self._state.count([counting.started(project_id) for project_id in begun])
        return {"sent": len(rows)}

    async def _send(self, session: Session) -> list[Row]:
        rows = await session.fetch(sql.claim_tasks, most=self._batch, platforms=list(self._config.strategies))
        if not rows:
            return []
        outcomes = await self._bus.publish_many([self._message(row) for row in rows])
        sent = [row for row, lost in zip(rows, outcomes, strict=True) if lost is None]
        stuck = [row for row, lost in zip(rows, outcomes, strict=True) if lost is not None]
        await session.execute(sql.mark_sent, timeout=self._config.task_timeout.total_seconds(), **_keys(sent))
        if stuck:
            log.error("collector.no_queue", platforms=sorted({row["platform"] for row in stuck}))
            await session.execute(sql.put_off, seconds=_PUT_OFF_SECONDS, **_keys(stuck))
        for row in sent:
            measures.TASKS_SENT.labels(row["platform"], str(row["attempt"] > 1).lower()).inc()
        return sent

    def _message(self, row: Row) -> Outgoing:
        task = _decode(row["body"])
        retry = row["attempt"] - task.attempt
        task.attempt = row["attempt"]
        strategy = self._config.strategies[task.platform]
        headers = {"x-job-id": task.job_id, "x-platform": task.platform, "x-attempt": task.attempt}
        waits = retry > 0 and row["wait"] > 0
        return Outgoing(
            exchange="",
            routing_key=strategy.delay_queue(retry) if waits else strategy.queue,
            body=_encode(task),
            headers={**headers, "retry": True} if retry > 0 else headers,
            message_id=f"{task.platform}/{task.job_id}/{task.attempt}",
            correlation_id=task.job_id,
            after=timedelta(seconds=row["wait"]) if waits else None,
        )


def _keys(rows: Sequence[Row]) -> dict[str, list[str]]:
    return {"platforms": [row["platform"] for row in rows], "job_ids": [row["job_id"] for row in rows]}
