"""Starts the time-out of tasks that have left their queue, and publishes a TIMEOUT result when it is over.

The result is processed like any other, so that retries and counters are decided in one place.
"""

from datetime import UTC, datetime

import msgspec

from opilio.adapters.postgres import Database, Row, Session
from opilio.bus import Bus, Outgoing
from opilio.collector import metrics
from opilio.collector.config import Config
from opilio.collector.result import TIMEOUT
from opilio.collector.sql import queries as sql
from opilio.contracts.collector import FlatResult

CURSOR = "timeout"  # a late result of the crawler itself has another identity


class Watchdog:
    """A task's clock starts when it cannot be in its queue any more, so that a backlog is not taken for a failure.

    That is known when the queue was empty after the task was sent, when a task queued behind it was answered, or when the
    crawler said that it has begun.
    """

    def __init__(self, database: Database, bus: Bus, config: Config, *, batch: int = 500) -> None:
        self._db = database
        self._bus = bus
        self._config = config
        self._batch = batch

    async def run_once(self) -> dict[str, int]:
        await self._start_deadlines()
        return {"timed_out": await self._db.transact(self._report)}

    async def _start_deadlines(self) -> None:
        for row in await self._db.fetch(sql.sent_platforms):
            platform = row["platform"]
            if platform not in self._config.strategies:
                continue
            depth = await self._bus.depth(self._config.strategies[platform].queue)
            await self._db.execute(
                sql.start_deadlines,
                platform=platform,
                empty_at=row["at"] if depth == 0 else None,
                timeout=self._config.task_timeout.total_seconds(),
            )

    async def _report(self, session: Session) -> int:
        """Moves the deadlines in the transaction that ends after the bus has confirmed the results."""
        timeout = self._config.task_timeout.total_seconds()
        rows = await session.fetch(sql.overdue_tasks, most=self._batch, timeout=timeout)
        if not rows:
            return 0
        await self._bus.publish_many([self._result(row) for row in rows])
        for row in rows:
            metrics.TIMED_OUT.labels(row["platform"]).inc()
        return len(rows)

    def _result(self, row: Row) -> Outgoing:
        result = FlatResult(
            job_id=row["job_id"],
            platform=row["platform"],
            task_type=row["task_type"],
            status="failed",
            cursor=CURSOR,
            error_code=TIMEOUT,
            error_message=f"no crawler answered within {self._config.task_timeout}",
            attempt=row["attempt"],
            emitted_at=datetime.now(UTC),
        )
        headers = {"x-job-id": row["job_id"], "x-platform": row["platform"], "x-attempt": row["attempt"]}
        if row["trace_id"]:
            headers["x-trace-id"] = row["trace_id"]
        return Outgoing(
            self._config.results_exchange,
            f"crawler.{row['platform']}.result",
            msgspec.json.encode(result),
            headers,
            correlation_id=row["job_id"],
        )
