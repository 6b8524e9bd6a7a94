"""Projects whose crawl is complete and whose analysis stands still: settled where possible, else reported."""

from datetime import UTC, datetime, timedelta
from functools import partial

from opilio.adapters.postgres import Database, Row, Session
from opilio.collector import metrics
from opilio.collector.batches import Batch, fill_shortfall
from opilio.collector.record_results import add_to_states, batch_of, store_batches
from opilio.collector.rounds import Rounds
from opilio.collector.sql import queries as sql
from opilio.collector.state.protocol import VersionedState
from opilio.collector.tally import Tally, batch_tally
from opilio.contracts.events import PROJECT_STALLED, ProjectStalled
from opilio.contracts.projects import MissingAnalysis
from opilio.contracts.topology import RESULTS_QUEUE
from opilio.errors import Conflict, NotFound
from opilio.logs import get_logger

log = get_logger(__name__)
_LISTED = 100


class StalledAnalysis(Rounds):
    """Looks after projects whose crawl is complete: each standstill is settled or reported once."""

    async def run_once(self) -> dict[str, int]:
        return {"settled": await self._settle_quiet(), "stalled": await self._report_stalled()}

    async def _settle_quiet(self) -> int:
        """Counts what is undecided in projects that nothing more comes for."""
        rows = await self._db.fetch(
            sql.quiet_projects, seconds=self._config.quiet_if_exact.total_seconds(), most=self._batch
        )
        if not rows or await self._bus.depth(RESULTS_QUEUE):
            return 0
        settled = 0
        for row in rows:
            states = await self._db.transact(
                partial(_settle, project_id=row["project_id"], quiet=self._config.quiet)
            )
            await self._state.publish(states)
            settled += len(states)
        return settled

    async def _report_stalled(self) -> int:
        return await self._db.transact(self._mark_stalled)

    async def _mark_stalled(self, session: Session) -> int:
        """Once for each standstill: an event, a warning that the project page shows, and a metric."""
        timeout = self._config.analyze_timeout.total_seconds()
        rows = await session.fetch(sql.mark_stalled, seconds=timeout, most=self._batch)
        for row in rows:
            await self._report(session, row)
        return len(rows)

    async def _report(self, session: Session, row: Row) -> None:
        seconds = int(self._config.analyze_timeout.total_seconds())
        project_id = row["project_id"]
        waiting = await missing_analysis(session, project_id)
        missing = row["analyze_total"] - row["analyze_done"] - row["analyze_errors"]
        event = ProjectStalled(
            project_id=project_id,
            analyze_total=row["analyze_total"],
            analyze_done=row["analyze_done"],
            analyze_errors=row["analyze_errors"],
            waiting_since=row["changed_at"],
            waiting_for=waiting,
        )
        await session.execute(sql.raise_stalled, type=PROJECT_STALLED, project_id=project_id, data=event)
        text = (
            f"the analysis of {missing} items has not progressed for {seconds} seconds; "
            "see the dead letters of analytics.data.collected, or close the project"
        )
        await session.execute(
            sql.add_warnings,
            project_ids=[project_id],
            platforms=[""],
            job_ids=[""],
            kinds=["analysis_stalled"],
            messages=[text],
        )
        metrics.STALLED.inc()
        log.warning("collector.analysis_stalled", project_id=project_id, missing=missing)


async def missing_analysis(
    session: Session | Database, project_id: str, most: int | None = _LISTED
) -> list[MissingAnalysis]:
    """The jobs of a project with items that were not analysed yet; None lists all of them."""
    rows = await session.fetch(sql.missing_analysis, project_id=project_id, most=most)
    return [MissingAnalysis(**row) for row in rows]


async def close_project(session: Session, project_id: str) -> tuple[int, list[VersionedState]]:
    """Counts the items that were not analysed as errors, so that the project is done; returns how many."""
    if not await session.fetch(sql.lock_states, project_ids=[project_id]):
        raise NotFound("there is no project %(id)s", id=project_id)
    [row] = await session.fetch(sql.read_states, project_ids=[project_id])
    if row["status"] == "DONE":
        return 0, []
    opened = row["tasks_total"] - row["tasks_done"] - row["tasks_errors"]
    if opened > 0:
        raise Conflict(
            "%(count)s tasks of %(id)s are still open: a project can be closed when its crawl is complete",
            code="invalid_state",
            count=opened,
            id=project_id,
        )
    missing = row["analyze_total"] - row["analyze_done"] - row["analyze_errors"]
    closed = Batch(
        project_id=project_id,
        platform="",
        job_id="closed by an operator",
        crawl_id="",
        copy=0,
        task_job_id="",
        success_count=0,
        error_count=missing,
        fetch_error_count=0,
        size_known=True,
        counted=True,
    )
    await store_batches(session, [closed])
    return missing, await add_to_states(session, {project_id: batch_tally(closed)})


async def _settle(session: Session, project_id: str, quiet: timedelta) -> list[VersionedState]:
    await session.fetch(sql.lock_states, project_ids=[project_id])
    [row] = await session.fetch(sql.read_states, project_ids=[project_id])
    shortfall = row["analyze_total"] - row["analyze_done"] - row["analyze_errors"]
    if row["status"] == "DONE" or shortfall <= 0:
        return []
    undecided = [batch_of(one) for one in await session.fetch(sql.undecided_batches, project_id=project_id)]
    since: datetime = await session.value(sql.changed_at, project_id=project_id)
    exact = sum(batch.items for batch in undecided) == shortfall
    if not exact and datetime.now(UTC) - since < quiet:
        return []
    owed = {one.job_id: one.missing for one in await missing_analysis(session, project_id, most=None)}
    changed = fill_shortfall(undecided, owed, shortfall)
    if not changed:
        return []
    before = {(batch.platform, batch.job_id, batch.crawl_id, batch.copy): batch for batch in undecided}
    gain = Tally()
    for batch in changed:
        old = before[batch.platform, batch.job_id, batch.crawl_id, batch.copy]
        gain += batch_tally(batch) - batch_tally(old)
    await store_batches(session, changed)
    return await add_to_states(session, {project_id: gain})
