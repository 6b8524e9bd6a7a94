"""Keyword projects: the list with both phases of each, and the page of one."""

from itertools import groupby
from typing import Any

from opilio.contracts.projects import Project, TaskRow
from opilio.web.dashboard.commands import as_commands
from opilio.web.dashboard.page import Page, PageRequest, Section, redirect

PROJECTS = Section()
STATUSES = ("PENDING", "PROCESSING", "DONE")
TASK_STATUSES = ("waiting", "sent", "retrying", "done", "failed")
_SIZE = 50
_KEYWORDS = 40
_WEBHOOKS = 20


@PROJECTS.page("/projects")
async def list_projects(request: PageRequest) -> Page:
    status = request.query("status")
    found = await request.opilio.project_insights.projects(
        limit=_SIZE,
        cursor=request.query("cursor"),
        status=status if status in STATUSES else None,
        q=request.query("q"),
    )
    values = {"items": found.items, "next_cursor": found.next_cursor, "statuses": STATUSES}
    return Page(
        "projects.html",
        request.locale.gettext("Projects"),
        values,
        data={"items": found.items, "next_cursor": found.next_cursor},
        rows=[flat(project) for project in found.items],
        watch="projects=" + ",".join(project.project_id for project in found.items),
        commands=as_commands(request, "opilio projects list", "/projects", {"status": "--status"}),
    )


def flat(project: Project) -> dict[str, Any]:
    """A project as one row of a table."""
    crawl, analyze = project.progress.crawl, project.progress.analyze
    return {
        "project_id": project.project_id,
        "brand_name": project.brand_name,
        "status": project.status,
        "overall_progress_percent": project.progress.overall_progress_percent,
        "platforms": project.platforms,
        "tasks_total": crawl.tasks.total,
        "tasks_done": crawl.tasks.done,
        "tasks_errors": crawl.tasks.errors,
        "items_expected": crawl.items.expected,
        "items_actual": crawl.items.actual,
        "items_errors": crawl.items.errors,
        "analyze_total": analyze.total,
        "analyze_done": analyze.done,
        "analyze_errors": analyze.errors,
        "created_at": project.created_at.isoformat(),
        "finished_at": project.finished_at.isoformat() if project.finished_at else None,
    }


@PROJECTS.page("/projects/{id:str}")
async def one_project(request: PageRequest) -> Page:
    insights = request.opilio.project_insights
    watch = await request.watch(projects=[request.name()])
    project = await insights.project(request.name())
    status = request.query("status")
    found = await insights.tasks(
        project.project_id,
        # Whole keywords on a page: each has one task on every platform.
        limit=_KEYWORDS * len(project.platforms),
        cursor=request.query("cursor"),
        status=status if status in TASK_STATUSES else None,
    )
    told = await insights.told(project.project_id, limit=_WEBHOOKS)
    return Page(
        "project.html",
        project.brand_name or project.project_id,
        {
            "project": project,
            "keywords": by_keyword(found.items),
            "asked": await insights.keywords_of([warning.job_id for warning in project.warnings or []]),
            "statuses": TASK_STATUSES,
            "next_cursor": found.next_cursor,
            "told": told,
        },
        data={
            "project": project,
            "tasks": found.items,
            "next_cursor": found.next_cursor,
            "webhooks": [dict(row) for row in told],
        },
        rows=found.items,
        watch=watch,
        commands=as_commands(
            request, f"opilio projects show {project.project_id}", f"/projects/{project.project_id}"
        ),
    )


@PROJECTS.action("/projects/{id:str}/close")
async def close_project(request: PageRequest) -> Any:
    project_id = request.name()
    missing = await request.opilio.projects.close_project(project_id, by=request.actor)
    message = request.locale.ngettext(
        "Project closed: %(n)s post counts as an error.",
        "Project closed: %(n)s posts count as errors.",
        missing,
    )
    return redirect(f"/projects/{project_id}", message)


def by_keyword(tasks: list[TaskRow]) -> list[tuple[str, str, dict[str, TaskRow]]]:
    """Keyword, whose it is, and its task on each platform; tasks come in the order of their jobs."""
    rows = []
    for job_id, of_job in groupby(tasks, key=lambda task: task.job_id):
        on = {task.platform: task for task in of_job}
        role = job_id.rsplit("-", 2)[-2]  # the project before it may have any name
        rows.append((next(iter(on.values())).keyword, role, on))
    return rows
