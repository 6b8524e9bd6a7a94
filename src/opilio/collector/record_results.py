"""Records results and analysed batches, and counts them, in one transaction.

The counters of a project change only under the lock of its `project_state` row and only by the difference between what
its tasks and batches added before and after. So they are always the sum of the rows.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

import msgspec

from opilio.adapters.postgres import Database, Row, Session
from opilio.collector.batches import Batch, choose_counted, place, task_of_batch
from opilio.collector.config import Config
from opilio.collector.result import Analysis, Result
from opilio.collector.retry_items import is_retry
from opilio.collector.sql import queries as sql
from opilio.collector.state.postgres import versioned
from opilio.collector.state.protocol import VersionedState
from opilio.collector.tally import COUNTERS, Tally, batch_tally, task_tally
from opilio.collector.task import Decision, Effect, Recorded, ResultKey, Task, decide
from opilio.collector.tasks import (
    Key,
    lock_tasks,
    read_results,
    store_results,
    store_tasks,
    store_warnings,
    warnings_of,
)

_CHANGES_TASK = frozenset({Effect.SETTLED, Effect.RETRIED, Effect.ADDED, Effect.REPLACED})
TaskOfProject: TypeAlias = tuple[str, str, str]  # project, platform, job id


@dataclass(slots=True)
class Outcome:
    """What became of each result and analysis, in the order given; None where there is no such task or project."""

    decisions: list[Decision | None] = field(default_factory=list)
    analyses: list[str | None] = field(default_factory=list)
    states: list[VersionedState] = field(default_factory=list)


class ResultRecorder:
    def __init__(self, database: Database, config: Config) -> None:
        self._db = database
        self._config = config

    async def record(self, results: Sequence[Result], analyses: Sequence[Analysis], now: datetime) -> Outcome:
        return await self._db.transact(
            lambda session: _Recording(session, self._config, now).run(results, analyses), hot=True
        )


class _Recording:
    """One transaction. States are locked first, then tasks, both in order, so that two collectors never deadlock."""

    def __init__(self, session: Session, config: Config, now: datetime) -> None:
        self._session = session
        self._config = config
        self._now = now
        self._projects: dict[str, Row] = {}
        self._tasks: dict[Key, Task] = {}
        self._batches: dict[TaskOfProject, list[Batch]] = defaultdict(list)
        self._gains: dict[str, Tally] = defaultdict(Tally)

    async def run(self, results: Sequence[Result], analyses: Sequence[Analysis]) -> Outcome:
        keys = list({(result.platform, result.job_id): None for result in results})
        await self._lock_states(keys, analyses)
        self._tasks = await lock_tasks(self._session, keys) if keys else {}
        await self._read_batches(results, analyses)
        before = {key: list(batches) for key, batches in self._batches.items()}
        outcome = Outcome()
        outcome.decisions = await self._decide(results, keys)
        await self._read_crawl_ids(analyses)
        outcome.analyses = [self._place(analysis) for analysis in analyses]
        await self._store_batches(before)
        outcome.states = await self._add_gains()
        return outcome

    async def _lock_states(self, keys: Sequence[Key], analyses: Iterable[Analysis]) -> None:
        projects = {analysis.project_id for analysis in analyses}
        if keys:
            rows = await self._session.fetch(
                sql.projects_of_tasks, platforms=[key[0] for key in keys], job_ids=[key[1] for key in keys]
            )
            projects |= {row["project_id"] for row in rows}
        rows = await self._session.fetch(sql.lock_states, project_ids=sorted(projects))
        self._projects = {row["project_id"]: row for row in rows}

    def _is_done(self, project_id: str | None) -> bool:
        return project_id is not None and self._projects[project_id]["status"] == "DONE"

    # ── results ──────────────────────────────────────────────────────────────────────────────────

    async def _decide(self, results: Sequence[Result], keys: Sequence[Key]) -> list[Decision | None]:
        recorded = await read_results(self._session, keys) if keys else {}
        new: dict[Key, dict[ResultKey, Recorded]] = defaultdict(dict)
        changed: dict[Key, tuple[Result, Decision]] = {}
        decisions: list[Decision | None] = []
        started: list[Key] = []
        warnings = []
        for result in results:
            key = (result.platform, result.job_id)
            task = self._tasks.get(key)
            if task is None:
                decisions.append(None)
                continue
            done = self._is_done(task.project_id)
            decision = decide(task, recorded[key], result, self._config, self._now, project_done=done)
            decisions.append(decision)
            warnings += warnings_of(result, decision)
            if decision.effect is Effect.STARTED:
                started.append(key)
            if decision.recorded is not None:
                recorded[key][decision.recorded.key] = new[key][decision.recorded.key] = decision.recorded
            if decision.effect in _CHANGES_TASK:
                changed[key] = (result, decision)
                self._apply(key, task, decision.task)
        await store_tasks(self._session, changed)
        await store_results(self._session, new)
        await store_warnings(self._session, warnings)
        await self._start(started)
        return decisions

    def _apply(self, key: Key, before: Task, after: Task) -> None:
        """The next result of the same task sees this decision; batches of another run of the crawler stop counting."""
        self._tasks[key] = after
        if after.project_id is None:
            return
        self._gains[after.project_id] += task_tally(after) - task_tally(before)
        if after.crawl_id != before.crawl_id:
            of_task = (after.project_id, after.platform, after.job_id)
            self._batches[of_task] = choose_counted(self._batches[of_task], after.crawl_id)

    async def _start(self, keys: Sequence[Key]) -> None:
        if keys:
            await self._session.execute(
                sql.start_task,
                timeout=self._config.task_timeout.total_seconds(),
                platforms=[platform for platform, _ in keys],
                job_ids=[job_id for _, job_id in keys],
            )

    # ── analysed batches ─────────────────────────────────────────────────────────────────────────

    async def _read_batches(self, results: Sequence[Result], analyses: Sequence[Analysis]) -> None:
        wanted: set[TaskOfProject] = {
            (analysis.project_id, analysis.platform, task_of_batch(analysis.job_id)) for analysis in analyses
        }
        for result in results:
            task = self._tasks.get((result.platform, result.job_id))
            if task is not None and task.project_id is not None and result.crawl_id != task.crawl_id:
                wanted.add((task.project_id, task.platform, task.job_id))
        if not wanted:
            return
        projects, platforms, jobs = (list(column) for column in zip(*wanted, strict=True))
        rows = await self._session.fetch(
            sql.batches_of_tasks, project_ids=projects, platforms=platforms, task_job_ids=jobs
        )
        for row in rows:
            one = batch_of(row)
            self._batches[one.project_id, one.platform, one.task_job_id].append(one)

    async def _read_crawl_ids(self, analyses: Sequence[Analysis]) -> None:
        """Which run of the crawler is counted, for tasks that no result of this transaction speaks of."""
        keys = {
            (analysis.platform, task_of_batch(analysis.job_id)) for analysis in analyses if analysis.crawl_id
        }
        missing = sorted(keys - self._tasks.keys(), key=lambda key: (key[1], key[0]))
        if missing:
            self._tasks |= await lock_tasks(self._session, missing)

    def _place(self, analysis: Analysis) -> str | None:
        if is_retry(analysis.project_id, task_of_batch(analysis.job_id)):
            return "retried"  # its posts are stored; the project counted them as errors before
        project = self._projects.get(analysis.project_id)
        if project is None:
            return None
        of_task = (analysis.project_id, analysis.platform, task_of_batch(analysis.job_id))
        task = self._tasks.get((of_task[1], of_task[2]))
        placed = place(
            self._batches[of_task],
            analysis,
            platforms=project["platforms"],
            crawl_id=task.crawl_id if task else None,
            project_done=project["status"] == "DONE",
        )
        if placed is None:
            return "repeated"
        self._batches[of_task] = placed
        return "late" if project["status"] == "DONE" else "counted"

    async def _store_batches(self, before: dict[TaskOfProject, list[Batch]]) -> None:
        changed = []
        for of_task, batches in self._batches.items():
            old = before.get(of_task, [])
            self._gains[of_task[0]] += _sum(batches) - _sum(old)
            changed += [batch for batch in batches if batch not in old]
        await store_batches(self._session, changed)

    async def _add_gains(self) -> list[VersionedState]:
        gains = {
            project_id: tally
            for project_id, tally in self._gains.items()
            if tally and not self._is_done(project_id)
        }
        return await add_to_states(self._session, gains)


def batch_of(row: Row) -> Batch:
    fields = dict(row)
    return Batch(**{**fields, "digests": tuple(fields["digests"])})


async def store_batches(session: Session, batches: Sequence[Batch]) -> None:
    rows = [{name: getattr(batch, name) for name in Batch.__dataclass_fields__} for batch in batches]
    if rows:
        await session.execute(sql.store_batches, batches=msgspec.Raw(msgspec.json.encode(rows)))


async def add_to_states(session: Session, gains: dict[str, Tally]) -> list[VersionedState]:
    """Adds to the counters of projects, whose states the caller has locked."""
    if not gains:
        return []
    columns = {name: [getattr(tally, name) for tally in gains.values()] for name in COUNTERS}
    rows = await session.fetch(sql.add_to_states, project_ids=list(gains), **columns)
    return [versioned(row) for row in rows]


def _sum(batches: Iterable[Batch]) -> Tally:
    total = Tally()
    for batch in batches:
        total += batch_tally(batch)
    return total
