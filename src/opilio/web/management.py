"""The management API under /api/v1: policies, jobs, results, hosts, bots, statistics."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import Response
from litestar.response import Stream
from msgspec import Meta

from opilio.contracts.bot_api import BotId
from opilio.contracts.management import (
    ActionRequest,
    ActionRow,
    BotInfo,
    FullResult,
    HistoryRow,
    Host,
    Job,
    JobStatus,
    LateRow,
    LimitsRequest,
    NewToken,
    Result,
    Stats,
    TimelineRow,
    TokenRow,
    Why,
)
from opilio.contracts.policies import ImportAnswer, ImportRow, Policy, PolicyInput, PolicyPatch
from opilio.crawl.importing import read_csv, read_jsonl, read_sitemap
from opilio.crawl.policies import Draft
from opilio.crawl.politeness import Limits
from opilio.crawl.priority import History, score
from opilio.crawl.url import domain_name, normalise
from opilio.errors import Invalid, NotFound, Refused
from opilio.netguard import AllowList
from opilio.web.endpoint import Call, Registry
from opilio.web.exporting import export_policies
from opilio.web.wire import error_body

MANAGEMENT = Registry()
_IMPORT_BATCH = 5000
_LONGEST_TEXT = 2048


class ListQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=500)] = 50
    cursor: Annotated[str, Meta(max_length=500)] | None = None


class PolicyQuery(ListQuery, kw_only=True, forbid_unknown_fields=True):
    enabled: bool | None = None
    host: Annotated[str, Meta(max_length=253)] | None = None
    q: Annotated[str, Meta(max_length=_LONGEST_TEXT)] | None = None


class HistoryQuery(ListQuery, kw_only=True, forbid_unknown_fields=True):
    field: Annotated[str, Meta(max_length=200)] | None = None


class JobQuery(ListQuery, kw_only=True, forbid_unknown_fields=True):
    status: JobStatus | None = None
    host: Annotated[str, Meta(max_length=253)] | None = None
    policy_id: Annotated[str, Meta(max_length=36)] | None = None
    bot_id: BotId | None = None


class ResultQuery(ListQuery, kw_only=True, forbid_unknown_fields=True):
    url: Annotated[str, Meta(max_length=_LONGEST_TEXT)] | None = None
    policy_id: Annotated[str, Meta(max_length=36)] | None = None


class ExportQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    format: Annotated[str, Meta(pattern="^(jsonl|csv)$")] = "jsonl"


# ── policies ─────────────────────────────────────────────────────────────────────────────────────


@MANAGEMENT.add(
    "POST",
    "/api/v1/policies",
    "write",
    "Create a policy",
    body=PolicyInput,
    answer=Policy,
    status=201,
    errors=("conflict",),
    tag="policies",
)
async def create_policy(call: Call) -> Any:
    policy_id = await call.opilio.policies.create(call.body)
    await call.opilio.entry.note(call.actor, "policy.create", str(policy_id), {"url": call.body.url})
    return await call.opilio.insights.policy(policy_id)


@MANAGEMENT.add(
    "GET", "/api/v1/policies", "read", "List policies", query=PolicyQuery, answer=list[Policy], tag="policies"
)
async def list_policies(call: Call) -> Any:
    q: PolicyQuery = call.query
    host = _host(q.host)
    return await call.opilio.insights.policies(
        limit=q.limit, cursor=q.cursor, enabled=q.enabled, host=host, q=q.q
    )


@MANAGEMENT.add(
    "POST",
    "/api/v1/policies/import",
    "write",
    "Import policies: every row is answered",
    body=bytes,
    answer=ImportAnswer,
    errors=("unsupported_media_type",),
    tag="policies",
    media_types=("text/csv", "application/x-ndjson", "application/xml"),
    body_factor=4,
)
async def import_policies(call: Call) -> Any:
    rows: list[ImportRow] = []
    drafts = _drafts(call.request.headers.get("content-type", ""), call.body)
    while batch := list(islice(drafts, _IMPORT_BATCH)):
        rows += [row for row in batch if isinstance(row, ImportRow)]
        rows += await call.opilio.policies.import_drafts([row for row in batch if isinstance(row, Draft)])
    rows.sort(key=lambda row: row.row)
    counts = {
        status: sum(row.status == status for row in rows) for status in ("created", "updated", "rejected")
    }
    await call.opilio.entry.note(call.actor, "policies.import", "policies", counts)
    return ImportAnswer(rows=rows, **counts)


def _drafts(content_type: str, body: bytes) -> Iterator[Draft | ImportRow]:
    kind = content_type.partition(";")[0].strip().lower()
    if kind in ("application/xml", "text/xml"):
        return read_sitemap(body)
    readers = {"text/csv": read_csv, "application/x-ndjson": read_jsonl, "application/jsonl": read_jsonl}
    if kind not in readers:
        wanted = "text/csv, application/x-ndjson or application/xml (a sitemap)"
        raise Refused("unsupported_media_type", f"send {wanted}; this is {kind or 'nothing'}")
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Invalid("body", f"is not UTF-8: {error.reason} at byte {error.start}") from None
    lines: Iterable[str] = text.splitlines(keepends=True)
    return readers[kind](lines)


@MANAGEMENT.add(
    "GET",
    "/api/v1/policies/export",
    "read",
    "Export all policies; the import reads it back",
    query=ExportQuery,
    raw_answer="application/x-ndjson",
    tag="policies",
)
async def export(call: Call) -> Response[Any]:
    kind = "text/csv" if call.query.format == "csv" else "application/x-ndjson"
    return Stream(export_policies(call.opilio.insights, call.query.format), media_type=kind)


@MANAGEMENT.add(
    "GET",
    "/api/v1/policies/{id:str}",
    "read",
    "One policy",
    answer=Policy,
    errors=("not_found",),
    tag="policies",
)
async def get_policy(call: Call) -> Any:
    return await call.opilio.insights.policy(call.uuid())


@MANAGEMENT.add(
    "PATCH",
    "/api/v1/policies/{id:str}",
    "write",
    "Change some fields of a policy",
    body=PolicyPatch,
    answer=Policy,
    errors=("not_found", "conflict"),
    tag="policies",
)
async def patch_policy(call: Call) -> Any:
    policy_id = call.uuid()
    await call.opilio.policies.change(policy_id, call.body)
    await call.opilio.entry.note(call.actor, "policy.change", str(policy_id), msgspec.to_builtins(call.body))
    return await call.opilio.insights.policy(policy_id)


@MANAGEMENT.add(
    "DELETE",
    "/api/v1/policies/{id:str}",
    "write",
    "Delete a policy: its waiting job goes too, its results stay",
    answer=dict[str, str],
    errors=("not_found",),
    tag="policies",
)
async def delete_policy(call: Call) -> Any:
    policy_id = call.uuid()
    if not await call.opilio.policies.delete([policy_id]):
        raise NotFound(f"there is no policy {policy_id}")
    await call.opilio.entry.note(call.actor, "policy.delete", str(policy_id))
    return {"id": str(policy_id), "status": "deleted"}


@MANAGEMENT.add(
    "POST",
    "/api/v1/policies/{id:str}/run",
    "write",
    "Run now, due or not; with an active job, that job is answered",
    answer=Job,
    errors=("not_found",),
    tag="policies",
)
async def run_policy(call: Call) -> Any:
    policy = await call.opilio.insights.policy(call.uuid())
    rated = score(History(policy.priority, 0, policy.error_rate, policy.hot), call.opilio.settings.rule_table)
    job_id = await call.opilio.scheduling.run_now(policy.id, rated.priority, call.actor)
    if job_id is None:
        raise NotFound(f"there is no policy {policy.id}")
    call.request.app.state.desk.work_appeared()
    await call.opilio.entry.note(call.actor, "policy.run", str(policy.id))
    return await call.opilio.insights.job(job_id)


@MANAGEMENT.add(
    "GET",
    "/api/v1/policies/{id:str}/why",
    "read",
    "Why a policy is not being crawled now",
    answer=Why,
    errors=("not_found",),
    tag="policies",
)
async def policy_why(call: Call) -> Any:
    return await call.opilio.insights.policy_why(call.uuid())


@MANAGEMENT.add(
    "GET",
    "/api/v1/policies/{id:str}/history",
    "read",
    "The value history of a URL, newest first",
    query=HistoryQuery,
    answer=list[HistoryRow],
    errors=("not_found",),
    tag="policies",
)
async def policy_history(call: Call) -> Any:
    q: HistoryQuery = call.query
    return await call.opilio.insights.history(call.uuid(), limit=q.limit, cursor=q.cursor, field=q.field)


# ── jobs ─────────────────────────────────────────────────────────────────────────────────────────


@MANAGEMENT.add(
    "GET", "/api/v1/jobs", "read", "List jobs, newest first", query=JobQuery, answer=list[Job], tag="jobs"
)
async def list_jobs(call: Call) -> Any:
    q: JobQuery = call.query
    return await call.opilio.insights.jobs(
        limit=q.limit,
        cursor=q.cursor,
        status=q.status,
        host=_host(q.host),
        policy_id=_uuid("policy_id", q.policy_id),
        bot_id=q.bot_id,
    )


@MANAGEMENT.add(
    "GET", "/api/v1/jobs/{id:str}", "read", "One job", answer=Job, errors=("job_not_found",), tag="jobs"
)
async def get_job(call: Call) -> Any:
    return await call.opilio.insights.job(call.uuid())


@MANAGEMENT.add(
    "GET",
    "/api/v1/jobs/{id:str}/timeline",
    "read",
    "What happened to a job, oldest first",
    answer=list[TimelineRow],
    errors=("job_not_found",),
    tag="jobs",
)
async def job_timeline(call: Call) -> Any:
    return _whole(await call.opilio.insights.timeline(call.uuid()))


@MANAGEMENT.add(
    "GET",
    "/api/v1/jobs/{id:str}/why",
    "read",
    "Why a job is not running now",
    answer=Why,
    errors=("job_not_found",),
    tag="jobs",
)
async def job_why(call: Call) -> Any:
    return await call.opilio.insights.job_why(call.uuid())


@MANAGEMENT.add(
    "GET",
    "/api/v1/jobs/{id:str}/late",
    "read",
    "Results that were refused as late",
    answer=list[LateRow],
    errors=("job_not_found",),
    tag="jobs",
)
async def job_late(call: Call) -> Any:
    return _whole(await call.opilio.insights.late(call.uuid()))


@MANAGEMENT.add(
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
    acted = await call.opilio.acting.act(asked.action, asked.ids, call.actor)
    call.request.app.state.desk.work_appeared()
    done = [item.job_id for item in acted if item.refusal is None]
    if done:
        await call.opilio.entry.note(call.actor, f"jobs.{asked.action}", "jobs", {"ids": done})
    rows = [
        ActionRow(
            id=item.job_id,
            success=item.refusal is None,
            status=item.status,
            error=None if item.refusal is None else error_body(item.refusal),
        )
        for item in acted
    ]
    return _whole(rows)


# ── results ──────────────────────────────────────────────────────────────────────────────────────


@MANAGEMENT.add(
    "GET",
    "/api/v1/results",
    "read",
    "List results, newest first",
    query=ResultQuery,
    answer=list[Result],
    tag="results",
)
async def list_results(call: Call) -> Any:
    q: ResultQuery = call.query
    # A result may be of a time when its address was allowed: reading refuses none.
    url = normalise(q.url, AllowList(everything=True)).url if q.url is not None else None
    policy_id = _uuid("policy_id", q.policy_id)
    return await call.opilio.insights.results(limit=q.limit, cursor=q.cursor, url=url, policy_id=policy_id)


@MANAGEMENT.add(
    "GET",
    "/api/v1/results/{id:str}",
    "read",
    "One result with its page",
    answer=FullResult,
    errors=("not_found",),
    tag="results",
)
async def get_result(call: Call) -> Any:
    return await call.opilio.insights.result(call.uuid(), call.opilio.pages.get_page)


# ── hosts ────────────────────────────────────────────────────────────────────────────────────────


@MANAGEMENT.add(
    "GET", "/api/v1/hosts", "read", "List hosts by name", query=ListQuery, answer=list[Host], tag="hosts"
)
async def list_hosts(call: Call) -> Any:
    return await call.opilio.insights.hosts(limit=call.query.limit, cursor=call.query.cursor)


@MANAGEMENT.add(
    "GET", "/api/v1/hosts/{host:str}", "read", "One host", answer=Host, errors=("not_found",), tag="hosts"
)
async def get_host(call: Call) -> Any:
    return await call.opilio.insights.host(call.text("host").lower())


@MANAGEMENT.add(
    "PUT",
    "/api/v1/hosts/{host:str}",
    "write",
    "Set the limits of a host; what is left out falls back to the fleet's default",
    body=LimitsRequest,
    answer=Host,
    tag="hosts",
)
async def put_host(call: Call) -> Any:
    asked: LimitsRequest = call.body
    host = await call.opilio.hosts.set_limits(
        call.text("host"), Limits(asked.max_concurrent, asked.min_delay_seconds)
    )
    call.request.app.state.desk.work_appeared()
    await call.opilio.entry.note(call.actor, "host.limits", host, msgspec.to_builtins(asked))
    return await call.opilio.insights.host(host)


# ── bots ─────────────────────────────────────────────────────────────────────────────────────────


@MANAGEMENT.add(
    "GET", "/api/v1/bots", "read", "List bots by id", query=ListQuery, answer=list[BotInfo], tag="bots"
)
async def list_bots(call: Call) -> Any:
    return await call.opilio.insights.bots(limit=call.query.limit, cursor=call.query.cursor)


@MANAGEMENT.add(
    "GET",
    "/api/v1/bots/{bot_id:str}/tokens",
    "admin",
    "The tokens of a bot",
    answer=list[TokenRow],
    tag="bots",
)
async def bot_tokens(call: Call) -> Any:
    rows = await call.opilio.entry.bot_tokens(call.text("bot_id"))
    return _whole(
        [
            TokenRow(id=row["token_id"], created_at=row["created_at"], revoked_at=row["revoked_at"])
            for row in rows
        ]
    )


@MANAGEMENT.add(
    "POST",
    "/api/v1/bots/{bot_id:str}/tokens",
    "admin",
    "A new token, shown once",
    answer=NewToken,
    status=201,
    tag="bots",
)
async def new_bot_token(call: Call) -> Any:
    bot_id = call.text("bot_id")
    token_id, token = await call.opilio.entry.new_bot_token(bot_id)
    await call.opilio.entry.note(call.actor, "bot.token", bot_id, {"id": token_id})
    return NewToken(id=token_id, token=token)


@MANAGEMENT.add(
    "DELETE",
    "/api/v1/bots/{bot_id:str}/tokens",
    "admin",
    "Revoke all tokens of a bot",
    answer=dict[str, int],
    errors=("not_found",),
    tag="bots",
)
async def revoke_bot_tokens(call: Call) -> Any:
    return await _revoke(call, None)


@MANAGEMENT.add(
    "DELETE",
    "/api/v1/bots/{bot_id:str}/tokens/{id:str}",
    "admin",
    "Revoke one token",
    answer=dict[str, int],
    errors=("not_found",),
    tag="bots",
)
async def revoke_bot_token(call: Call) -> Any:
    return await _revoke(call, call.uuid())


async def _revoke(call: Call, token_id: Any) -> dict[str, int]:
    bot_id = call.text("bot_id")
    count = await call.opilio.entry.revoke_bot_tokens(bot_id, token_id)
    await call.opilio.entry.note(call.actor, "bot.revoke", bot_id, {"id": token_id})
    return {"revoked": count}


# ── figures ──────────────────────────────────────────────────────────────────────────────────────


@MANAGEMENT.add(
    "GET", "/api/v1/stats", "read", "Counts by state, rates, oldest due", answer=Stats, tag="figures"
)
async def stats(call: Call) -> Any:
    return await call.opilio.insights.stats()


def _whole(items: list[Any]) -> dict[str, Any]:
    """A list that is never long, in the form of the long ones."""
    return {"items": items, "next_cursor": None}


def _host(text: str | None) -> str | None:
    return None if text is None else domain_name(text)


def _uuid(field: str, text: str | None) -> UUID | None:
    if text is None:
        return None
    try:
        return UUID(text)
    except ValueError:
        raise Invalid(field, "must be a UUID") from None
