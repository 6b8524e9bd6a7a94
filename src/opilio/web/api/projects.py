"""Keyword projects and their progress."""

from typing import Annotated, Any

from msgspec import Meta

from opilio.contracts.projects import (
    ClosedProject,
    Difference,
    DryRun,
    DryRunInput,
    Project,
    ProjectInput,
    ProjectState,
    ProjectStatus,
    TaskRow,
)
from opilio.web.api.shared import ListQuery
from opilio.web.routes import Call, Registry

PROJECTS = Registry()


class ProjectQuery(ListQuery, kw_only=True, forbid_unknown_fields=True):
    status: ProjectStatus | None = None
    q: Annotated[str, Meta(max_length=200)] | None = None


class TaskQuery(ListQuery, kw_only=True, forbid_unknown_fields=True):
    status: Annotated[str, Meta(pattern="^(waiting|sent|retrying|done|failed)$")] | None = None


@PROJECTS.add(
    "POST",
    "/api/v1/projects",
    "write",
    "Create a project and send its tasks; the same project again changes nothing",
    body=ProjectInput,
    answer=Project,
    status=201,
    errors=("conflict",),
    tag="projects",
)
async def create_project(call: Call) -> Any:
    project_id = await call.opilio.projects.create(call.body, by=call.actor)
    return await call.opilio.project_insights.project(project_id)


@PROJECTS.add(
    "GET",
    "/api/v1/projects",
    "read",
    "List projects, newest first",
    query=ProjectQuery,
    answer=list[Project],
    tag="projects",
)
async def list_projects(call: Call) -> Any:
    q: ProjectQuery = call.query
    return await call.opilio.project_insights.projects(limit=q.limit, cursor=q.cursor, status=q.status, q=q.q)


@PROJECTS.add(
    "GET",
    "/api/v1/projects/{project_id:str}",
    "read",
    "One project with its warnings",
    answer=Project,
    errors=("not_found",),
    tag="projects",
)
async def get_project(call: Call) -> Any:
    return await call.opilio.project_insights.project(call.text("project_id"))


@PROJECTS.add(
    "GET",
    "/api/v1/projects/{project_id:str}/state",
    "read",
    "The state as the flat hash, numbers as numbers",
    answer=ProjectState,
    errors=("not_found",),
    tag="projects",
)
async def project_state(call: Call) -> Any:
    return await call.opilio.projects.state(call.text("project_id"))


@PROJECTS.add(
    "GET",
    "/api/v1/projects/{project_id:str}/tasks",
    "read",
    "The tasks of a project, keyword by platform",
    query=TaskQuery,
    answer=list[TaskRow],
    errors=("not_found",),
    tag="projects",
)
async def project_tasks(call: Call) -> Any:
    q: TaskQuery = call.query
    return await call.opilio.project_insights.tasks(
        call.text("project_id"), limit=q.limit, cursor=q.cursor, status=q.status
    )


@PROJECTS.add(
    "POST",
    "/api/v1/projects/{project_id:str}/close",
    "write",
    "Close a project whose analysis does not end: items that were not analysed count as errors",
    answer=ClosedProject,
    errors=("not_found", "invalid_state"),
    tag="projects",
)
async def close_project(call: Call) -> Any:
    project_id = call.text("project_id")
    added = await call.opilio.projects.close_project(project_id, by=call.actor)
    return ClosedProject(project_id=project_id, analyze_errors_added=added)


@PROJECTS.add(
    "POST",
    "/api/v1/projects/{project_id:str}/reconcile",
    "write",
    "Recount a project from its recorded tasks and batches; answers what differed",
    answer=list[Difference],
    errors=("not_found",),
    tag="projects",
)
async def reconcile_project(call: Call) -> Any:
    return await call.opilio.projects.reconcile(call.text("project_id"), by=call.actor)


@PROJECTS.add(
    "POST",
    "/api/v1/dry-runs",
    "write",
    "Search keywords on every platform without a project",
    body=DryRunInput,
    answer=DryRun,
    status=201,
    tag="projects",
)
async def create_dry_run(call: Call) -> Any:
    wanted: DryRunInput = call.body
    job_id = await call.opilio.projects.dry_run(wanted.keywords, limit=wanted.limit, by=call.actor)
    return await call.opilio.project_insights.dry_run(job_id)


@PROJECTS.add(
    "GET",
    "/api/v1/dry-runs/{job_id:str}",
    "read",
    "A dry run with the items that were found",
    answer=DryRun,
    errors=("not_found",),
    tag="projects",
)
async def get_dry_run(call: Call) -> Any:
    return await call.opilio.project_insights.dry_run(call.text("job_id"))
