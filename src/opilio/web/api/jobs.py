"""Jobs: list, show, explain, and operator actions."""

from typing import Annotated, Any

from msgspec import Meta

from opilio.contracts.bot_api import BotId
from opilio.contracts.management import ActionRequest, ActionRow, Job, JobStatus, LateRow, TimelineRow, Why
from opilio.web.api.shared import ListQuery, host_name, uuid_of, whole
from opilio.web.codec import error_body
from opilio.web.routes import Call, Registry

JOBS = Registry()


class JobQuery(ListQuery, kw_only=True, forbid_unknown_fields=True):
    status: JobStatus | None = None
    host: Annotated[str, Meta(max_length=253)] | None = None
    policy_id: Annotated[str, Meta(max_length=36)] | None = None
    bot_id: BotId | None = None


@JOBS.add(
    "GET", "/api/v1/jobs", "read", "List jobs, newest first", query=JobQuery, answer=list[Job], tag="jobs"
)
async def list_jobs(call: Call) -> Any:
    q: JobQuery = call.query
    return await call.opilio.insights.jobs(
        limit=q.limit,
        cursor=q.cursor,
        status=q.status,
        host=host_name(q.host),
        policy_id=uuid_of("policy_id", q.policy_id),
        bot_id=q.bot_id,
    )


@JOBS.add(
    "GET", "/api/v1/jobs/{id:str}", "read", "One job", answer=Job, errors=("job_not_found",), tag="jobs"
)
async def get_job(call: Call) -> Any:
    return await call.opilio.insights.job(call.uuid())


@JOBS.add(
    "GET",
    "/api/v1/jobs/{id:str}/timeline",
    "read",
    "What happened to a job, oldest first",
    answer=list[TimelineRow],
    errors=("job_not_found",),
    tag="jobs",
)
async def job_timeline(call: Call) -> Any:
    return whole(await call.opilio.insights.timeline(call.uuid()))


@JOBS.add(
    "GET",
    "/api/v1/jobs/{id:str}/why",
    "read",
    "Why a job is not running now",
    answer=Why,
    errors=("job_not_found",),
    tag="jobs",
)
async def job_why(call: Call) -> Any:
    return (await call.opilio.insights.job_why(call.uuid())).as_answer()


@JOBS.add(
    "GET",
    "/api/v1/jobs/{id:str}/late",
    "read",
    "Results that were refused as late",
    answer=list[LateRow],
    errors=("job_not_found",),
    tag="jobs",
)
async def job_late(call: Call) -> Any:
    return whole(await call.opilio.insights.late(call.uuid()))


@JOBS.add(
    "POST",
    "/api/v1/jobs/actions",
    "write",
    "Reset, expire or release jobs, answered per id",
    body=ActionRequest,
    answer=list[ActionRow],
    tag="jobs",
)
async def act_on_jobs(call: Call) -> Any:
    asked: ActionRequest = call.body
    results = await call.opilio.operator_actions.apply(asked.action, asked.ids, call.actor)
    rows = [
        ActionRow(
            id=item.job_id,
            success=item.refusal is None,
            status=item.status,
            error=None if item.refusal is None else error_body(item.refusal),
        )
        for item in results
    ]
    return whole(rows)
