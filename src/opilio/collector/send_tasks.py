"""Publishes recorded tasks. A task row is its own outbox entry: it stays unsent until the bus has confirmed it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from opilio.adapters.postgres import Row, Session
from opilio.bus import Outgoing
from opilio.collector import metrics
from opilio.collector.rounds import Rounds
from opilio.collector.sql import queries as sql
from opilio.collector.state.postgres import versioned
from opilio.collector.state.protocol import VersionedState
from opilio.contracts.collector import CrawlTask
from opilio.logs import get_logger

log = get_logger(__name__)
CHANNEL = "opilio_tasks"
_POSTPONED_SECONDS = 30.0
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(CrawlTask).decode


class Sender(Rounds):
    """Safe to run concurrently; after a crash between confirm and commit a task is sent again with the same key."""

    async def run_once(self) -> dict[str, int]:
        """Sends one batch of tasks, of each platform no more than may be in flight."""
        sent, states = await self._db.transact(self._send)
        await self._state.publish(states)
        return {"sent": len(sent)}

    async def _send(self, session: Session) -> tuple[list[Row], list[VersionedState]]:
        if not await session.value(sql.lock_sending):
            return [], []
        rows = await session.fetch(
            sql.claim_tasks,
            most=self._batch,
            platforms=list(self._config.strategies),
            in_flight=self._config.tasks_in_flight,
        )
        if not rows:
            return [], []
        # In the order of `start_deadlines`, which infers from it what has left the queue.
        rows.sort(key=lambda row: (row["send_at"], row["created_at"], row["job_id"]))
        outcomes = await self._bus.publish_many([self._message(row) for row in rows])
        sent = [row for row, failure in zip(rows, outcomes, strict=True) if failure is None]
        unroutable = [row for row, failure in zip(rows, outcomes, strict=True) if failure is not None]
        await session.execute(sql.mark_sent, **_keys(sent))
        if unroutable:
            log.error(
                "collector.task_queue_missing", platforms=sorted({row["platform"] for row in unroutable})
            )
            await session.execute(sql.postpone_tasks, seconds=_POSTPONED_SECONDS, **_keys(unroutable))
        for row in sent:
            metrics.TASKS_SENT.labels(row["platform"], str(row["attempt"] > 1).lower()).inc()
        projects = sorted({row["project_id"] for row in sent if row["project_id"] and row["attempt"] == 1})
        states = await session.fetch(sql.mark_processing, project_ids=projects) if projects else []
        return sent, [versioned(row) for row in states]

    def _message(self, row: Row) -> Outgoing:
        task = _decode(row["body"])
        retry = row["attempt"] - task.attempt
        if retry == 0:
            delay = (datetime.now(UTC) - task.emitted_at).total_seconds()
            metrics.TASK_DELAY.labels(task.platform).observe(max(delay, 0.0))
        task.attempt = row["attempt"]
        strategy = self._config.strategies[task.platform]
        headers = {"x-job-id": task.job_id, "x-platform": task.platform, "x-attempt": task.attempt}
        if row["trace_id"]:
            headers["x-trace-id"] = row["trace_id"]
        waits = retry > 0 and row["wait"] > 0
        return Outgoing(
            exchange="",
            routing_key=strategy.queue,
            body=_encode(task),
            headers={**headers, "retry": True} if retry > 0 else headers,
            message_id=f"{task.platform}/{task.job_id}/{task.attempt}",
            correlation_id=task.job_id,
            after=timedelta(seconds=row["wait"]) if waits else None,
        )


def _keys(rows: Sequence[Row]) -> dict[str, list[str]]:
    return {"platforms": [row["platform"] for row in rows], "job_ids": [row["job_id"] for row in rows]}
