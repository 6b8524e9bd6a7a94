"""Jobs: the list by state, and the page of one as the state machine that it is."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from opilio.contracts.management import FullResult, Job
from opilio.crawl.job import TRANSITIONS, Cause, State
from opilio.errors import Invalid
from opilio.insights.dashboard import JobFilter, SystemStatus
from opilio.insights.story import story
from opilio.insights.why import brief
from opilio.web.dashboard.commands import as_commands
from opilio.web.dashboard.diagram import draw
from opilio.web.dashboard.forms import uuid_of
from opilio.web.dashboard.page import Found, Page, PageRequest, Section, redirect
from opilio.web.dashboard.render import STATES

JOBS = Section()
_ACTIONS = {"reset": Cause.RESET, "expire": Cause.EXPIRE, "release": Cause.RELEASE}
_MOST_HTML = 200_000
_SIZE = 50
_SORTS = ("newest", "time", "priority", "retries")


def job_filter(request: PageRequest) -> JobFilter:
    status, policy_id = request.query("status"), request.query("policy_id")
    return JobFilter(
        status=status if status in STATES else None,
        host=(request.query("host") or "").lower() or None,
        policy_id=uuid_of(policy_id) if policy_id else None,
        bot_id=request.query("bot_id"),
        error=request.query("error"),
        q=request.query("q"),
        finished_since=request.moment("since"),
        finished_until=request.moment("until", is_end=True),
    )


@JOBS.page("/jobs")
async def list_jobs(request: PageRequest) -> Page:
    (chosen, found), status = await asyncio.gather(_search(request), request.app.live.system_status())
    gettext = request.locale.gettext
    values = {
        "items": found.items,
        "next_cursor": found.next_cursor,
        "number": request.page_number(),
        "more": found.more,
        "total": await found.total(request, lambda: request.opilio.sorted_lists.count_jobs(chosen)),
        "system_status": status,
        "reasons": await _reasons(request, found.items, status),
        "saved": await request.opilio.views.all("jobs"),
        "system": [
            ("", gettext("All")),
            ("status=locked", gettext("Running")),
            ("status=failed", gettext("Failed")),
            ("status=expired", gettext("Expired")),
        ],
    }
    watch = "jobs=" + ",".join(str(job.id) for job in found.items)
    options = {"status": "--status", "host": "--host", "policy_id": "--policy", "bot_id": "--bot"}
    commands = as_commands(request, "opilio jobs list", "/jobs", options)
    return Page("jobs.html", gettext("Jobs"), values, rows=found.items, watch=watch, commands=commands)


async def _search(request: PageRequest) -> tuple[JobFilter, Found]:
    """The filter, whose text was searched for, and what it finds."""
    chosen = await request.opilio.figures.search_jobs(job_filter(request))
    return chosen, await _found(request, chosen)


async def _found(request: PageRequest, chosen: JobFilter) -> Found:
    """The newest by a cursor, which costs the same on every page; another order by page number, up to a bound."""
    sort, reverse = request.sort(_SORTS)
    if (sort, reverse) != ("newest", False):
        lists, number = request.opilio.sorted_lists, request.page_number()
        rows = await lists.jobs(chosen, sort=sort, reverse=reverse, page=number, size=_SIZE)
        return Found(rows[:_SIZE], more=len(rows) > _SIZE)
    page = await request.opilio.insights.jobs(
        limit=_SIZE,
        cursor=request.query("cursor"),
        status=chosen.status,
        host=chosen.host,
        policy_id=chosen.policy_id,
        bot_id=chosen.bot_id,
        policy_ids=chosen.policy_ids,
        error=chosen.error,
        since=chosen.finished_since,
        until=chosen.finished_until,
    )
    return Found(page.items, page.next_cursor)


async def _reasons(request: PageRequest, jobs: Sequence[Job], status: SystemStatus) -> dict[UUID, Any]:
    """Why the pending jobs of a list wait, as far as the list itself can say."""
    pending = [job for job in jobs if job.status == "pending"]
    if not pending:
        return {}
    cooling = await request.opilio.activity.cooling([job.host for job in pending])
    seen = {queue.queue: queue.bot_seen_at for queue in status.queues}
    return {
        job.id: brief(job.run_at, cooling.get(job.host), seen.get(job.queue), status.at) for job in pending
    }


@JOBS.page("/jobs/{id:str}")
async def one_job(request: PageRequest) -> Page:
    insights = request.opilio.insights
    watch = await request.watch(jobs=[request.id()])
    job = await insights.job(request.id())
    timeline = await insights.timeline(job.id)
    late = await insights.late(job.id)
    active = job.status in ("pending", "locked")
    why = await insights.job_why(job.id) if active else None
    result = await _result(request, job)
    shown = result if result is None or not result.raw_html else _cut(result)
    return Page(
        "job.html",
        request.locale.gettext("Job"),
        {
            "job": job,
            "timeline": timeline,
            "story": story(timeline, datetime.now(UTC)),
            "late": late,
            "why": why,
            "result": shown,
            "diagram": draw(job.status, [(row.from_, row.to) for row in timeline]),
            "possible": [
                name for name, cause in _ACTIONS.items() if (State(job.status), cause) in TRANSITIONS
            ],
        },
        data={
            "job": job,
            "timeline": timeline,
            "why": why and why.as_answer(),
            "late": late,
            "result": shown,
        },
        frames=True,
        watch=watch,
        commands=as_commands(request, f"opilio jobs show {job.id}", f"/jobs/{job.id}"),
    )


async def _result(request: PageRequest, job: Job) -> FullResult | None:
    if job.result_id is None:
        return None
    return await request.opilio.insights.result(job.result_id, request.opilio.pages.get_page)


def _cut(result: FullResult) -> FullResult:
    result.raw_html = (result.raw_html or "")[:_MOST_HTML]
    return result


@JOBS.action("/jobs/{id:str}/act")
async def act_on_job(request: PageRequest) -> Any:
    action = request.field("action") or ""
    if action not in _ACTIONS:
        raise Invalid("action", "must be one of %(names)s", names=", ".join(_ACTIONS))
    job_id: UUID = request.id()
    acted = (await request.opilio.operator_actions.apply(action, [job_id], request.actor))[0]
    if acted.refusal is not None:
        raise acted.refusal
    return redirect(
        f"/jobs/{job_id}", request.locale.gettext("The job is now %(state)s.", state=str(acted.status))
    )
