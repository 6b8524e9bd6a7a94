"""Read queries for keyword projects; the live state is read from the collector."""

from collections.abc import Sequence
from typing import Any

import msgspec

from opilio.adapters.postgres import Database, Row, load_queries
from opilio.collector import completion
from opilio.collector.stalled_analysis import missing_analysis
from opilio.contracts.projects import (
    DryRun,
    DryRunItem,
    DryRunTask,
    Project,
    ProjectState,
    ProjectWarning,
    TaskRow,
)
from opilio.errors import NotFound
from opilio.pages import Page, page_of, read_text

_Q = load_queries("opilio.insights")
_MOST_WARNINGS = 500
_MOST_ITEMS = 1_000


class ProjectInsights:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def projects(
        self, *, limit: int = 50, cursor: str | None = None, status: str | None = None, q: str | None = None
    ) -> Page[Any]:
        """Projects, newest first; `progress` lags by about a second."""
        rows = await self._db.fetch(_Q.projects, before=read_text(cursor), status=status, q=q, most=limit + 1)
        return page_of(rows, limit, _project, lambda row: row["project_id"])

    async def project(self, project_id: str) -> Project:
        """One project with its warnings."""
        row = await self._db.row(_Q.one_project, project_id=project_id)
        if row is None:
            raise NotFound("there is no project %(id)s", id=project_id)
        warnings = await self._db.fetch(_Q.project_warnings, project_id=project_id, most=_MOST_WARNINGS)
        project = _project(row)
        project.warnings = [ProjectWarning(**warning) for warning in warnings]
        analysis = await self._db.row(_Q.project_analysis, project_id=project_id)
        if analysis is not None and analysis["waits"]:
            project.waiting_for = await missing_analysis(self._db, project_id)
            project.stalled_at = analysis["stalled_at"] or msgspec.UNSET
        return project

    async def dry_run(self, job_id: str) -> DryRun:
        """A dry run with the items that were found so far."""
        rows = await self._db.fetch(_Q.dry_run_tasks, job_id=job_id)
        if not rows:
            raise NotFound("there is no dry run %(id)s", id=job_id)
        items = await self._db.fetch(_Q.dry_run_items, job_id=job_id, most=_MOST_ITEMS)
        columns = DryRunTask.__struct_fields__
        answered = all(row["status"] in {"done", "failed"} for row in rows)
        return DryRun(
            job_id=job_id,
            keywords=rows[0]["keywords"],
            created_at=rows[0]["created_at"],
            done=answered and len(items) >= min(sum(row["successful"] for row in rows), _MOST_ITEMS),
            tasks=[DryRunTask(**{name: row[name] for name in columns}) for row in rows],
            items=[DryRunItem(**row) for row in items],
        )

    async def tasks(
        self, project_id: str, *, limit: int = 50, cursor: str | None = None, status: str | None = None
    ) -> Page[Any]:
        """The tasks of a project, by job and platform."""
        if await self._db.row(_Q.one_project, project_id=project_id) is None:
            raise NotFound("there is no project %(id)s", id=project_id)
        job_id, _, platform = (read_text(cursor) or "").rpartition("/")
        rows = await self._db.fetch(
            _Q.project_tasks,
            project_id=project_id,
            status=status,
            after_job=job_id or None,
            after_platform=platform,
            most=limit + 1,
        )
        return page_of(
            rows, limit, lambda row: TaskRow(**row), lambda row: f"{row['job_id']}/{row['platform']}"
        )

    async def keywords_of(self, job_ids: Sequence[str]) -> dict[str, str]:
        """The keyword of each of these jobs."""
        rows = await self._db.fetch(_Q.keywords_of_jobs, job_ids=list(job_ids)) if job_ids else []
        return {row["job_id"]: row["keyword"] for row in rows}

    async def told(self, project_id: str, *, limit: int = 20) -> list[Row]:
        """The progress webhooks of a project, newest first, each with its last attempt."""
        return await self._db.fetch(_Q.project_told, project_id=project_id, most=limit)


def _project(row: Row) -> Project:
    fields: dict[str, Any] = dict(row)
    at, state = fields.pop("at"), msgspec.convert(fields.pop("snapshot"), ProjectState)
    progress = completion.progress(row["project_id"], state, row["finished_at"] or at)
    return Project(**fields, progress=progress)
