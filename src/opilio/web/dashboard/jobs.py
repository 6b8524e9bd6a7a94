"""Jobs: the list by state, and the page of one as the state machine that it is."""

from typing import Any
from uuid import UUID

from opilio.contracts.management import FullResult, Job
from opilio.crawl.job import TRANSITIONS, Cause, State
from opilio.errors import Invalid
from opilio.insights.dashboard import JobFilter
from opilio.web.dashboard.commands import as_commands
from opilio.web.dashboard.diagram import draw
from opilio.web.dashboard.page import Page, Site, Visit, go, uuid_of
from opilio.web.dashboard.render import STATES

JOBS = Site()
_ACTIONS = {"reset": Cause.RESET, "expire": Cause.EXPIRE, "release": Cause.RELEASE}
_MOST_HTML = 200_000


def job_filter(visit: Visit) -> JobFilter:
    status, policy_id = visit.arg("status"), visit.arg("policy_id")
    return JobFilter(
        status=status if status in STATES else None,
        host=(visit.arg("host") or "").lower() or None,
        policy_id=uuid_of(policy_id) if policy_id else None,
        bot_id=visit.arg("bot_id"),
    )


@JOBS.page("/jobs")
async def list_jobs(visit: Visit) -> Page:
    chosen = job_filter(visit)
    found = await visit.opilio.insights.jobs(
        limit=50,
        cursor=visit.arg("cursor"),
        status=chosen.status,
        host=chosen.host,
        policy_id=chosen.policy_id,
        bot_id=chosen.bot_id,
    )
    say = visit.words.say
    values = {
        "items": found.items,
        "next_cursor": found.next_cursor,
        "pulse": await visit.app.live.pulse(),
        "saved": await visit.opilio.views.all("jobs"),
        "system": [
            ("", say("All")),
            ("status=locked", say("Running now")),
            ("status=failed", say("Failed")),
            ("status=expired", say("Lost by their bot")),
        ],
    }
    watch = "jobs=" + ",".join(str(job.id) for job in found.items)
    options = {"status": "--status", "host": "--host", "policy_id": "--policy", "bot_id": "--bot"}
    commands = as_commands(visit, "opilio jobs list", "/jobs", options)
    return Page("jobs.html", say("Jobs"), values, rows=found.items, watch=watch, commands=commands)


@JOBS.page("/jobs/{id:str}")
async def one_job(visit: Visit) -> Page:
    insights = visit.opilio.insights
    job = await insights.job(visit.id())
    timeline = await insights.timeline(job.id)
    late = await insights.late(job.id)
    active = job.status in ("pending", "locked")
    why = await insights.job_why(job.id) if active else None
    result = await _result(visit, job)
    shown = result if result is None or not result.raw_html else _cut(result)
    return Page(
        "job.html",
        visit.words.say("Job"),
        {
            "job": job,
            "timeline": timeline,
            "late": late,
            "why": why,
            "result": shown,
            "diagram": draw(job.status, [(row.from_, row.to) for row in timeline]),
            "possible": [
                name for name, cause in _ACTIONS.items() if (State(job.status), cause) in TRANSITIONS
            ],
        },
        data={"job": job, "timeline": timeline, "why": why, "late": late, "result": shown},
        frames=True,
        watch=f"jobs={job.id}",
        commands=as_commands(visit, f"opilio jobs show {job.id}", f"/jobs/{job.id}"),
    )


async def _result(visit: Visit, job: Job) -> FullResult | None:
    if job.result_id is None:
        return None
    return await visit.opilio.insights.result(job.result_id, visit.opilio.pages.get_page)


def _cut(result: FullResult) -> FullResult:
    result.raw_html = (result.raw_html or "")[:_MOST_HTML]
    return result


@JOBS.action("/jobs/{id:str}/act")
async def act_on_job(visit: Visit) -> Any:
    action = visit.said("action") or ""
    if action not in _ACTIONS:
        raise Invalid("action", f"must be one of {', '.join(_ACTIONS)}")
    job_id: UUID = visit.id()
    acted = (await visit.opilio.acting.act(action, [job_id], visit.actor))[0]
    if acted.refusal is not None:
        raise acted.refusal
    visit.app.desk.work_appeared()
    await visit.note(f"jobs.{action}", "jobs", {"ids": [job_id]})
    return go(f"/jobs/{job_id}", visit.words.say("The job is now %(state)s.", state=str(acted.status)))
