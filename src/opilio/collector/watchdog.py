"""Answers for crawlers that never do: a task past its deadline gets a result that says TIMEOUT.

It goes the way of every result, so that retry, last word and counters are decided in one place.
"""

from datetime import UTC, datetime

import msgspec

from opilio.adapters.postgres import Database, Row, Session
from opilio.bus import Bus, Outgoing
from opilio.collector import metrics as measures
from opilio.collector.config import Config
from opilio.collector.result import TIMEOUT
from opilio.collector.state.postgres import sql
from opilio.contracts.collector import FlatResult

CURSOR = "timeout"  # a real answer that comes after all is another result


class Watchdog:
    def __init__(self, database: Database, bus: Bus, config: Config, *, batch: int = 500) -> None:
        self._db = database
        self._bus = bus
        self._config = config
        self._batch = batch

    async def run_once(self) -> dict[str, int]:
        return {"timed_out": await self._db.transact(self._report)}

    async def _report(self, session: Session) -> int:
        """The deadlines move on only if the results are safely on the bus."""
        timeout = self._config.task_timeout.total_seconds()
        rows = await session.fetch(sql.overdue_tasks, most=self._batch, timeout=timeout)
        if not rows:
            return 0
        await self._bus.publish_many([self._result(row) for row in rows])
        for row in rows:
            measures.TIMED_OUT.labels(row["platform"]).inc()
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
        return Outgoing(
            self._config.results_exchange,
            f"crawler.{row['platform']}.result",
            msgspec.json.encode(result),
            {"x-job-id": row["job_id"], "x-platform": row["platform"], "x-attempt": row["attempt"]},
            correlation_id=row["job_id"],
        )
