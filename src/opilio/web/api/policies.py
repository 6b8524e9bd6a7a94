"""Policies: what is crawled, and how often."""

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Annotated, Any

import msgspec
from litestar import Response
from litestar.response import Stream
from msgspec import Meta

from opilio.contracts.management import HistoryRow, Job, Why
from opilio.contracts.policies import ImportAnswer, ImportRow, Policy, PolicyInput, PolicyPatch
from opilio.crawl.export_policies import write_csv, write_jsonl
from opilio.crawl.import_policies import (
    Reading,
    import_rows,
    preview_rows,
    read_csv,
    read_jsonl,
    read_sitemap,
)
from opilio.errors import Invalid, NotFound, Refused
from opilio.insights.crawl import CrawlInsights
from opilio.insights.recrawl import LearntSchedule, Pool
from opilio.web.api.shared import LONGEST_TEXT, ListQuery, host_name, whole
from opilio.web.routes import Call, Registry

POLICIES = Registry()


class PolicyQuery(ListQuery, kw_only=True, forbid_unknown_fields=True):
    enabled: bool | None = None
    host: Annotated[str, Meta(max_length=253)] | None = None
    q: Annotated[str, Meta(max_length=LONGEST_TEXT)] | None = None


class HistoryQuery(ListQuery, kw_only=True, forbid_unknown_fields=True):
    field: Annotated[str, Meta(max_length=200)] | None = None


class ImportQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    dry_run: Annotated[bool, Meta(description="Answer every row, but change nothing.")] = False


class ExportQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    format: Annotated[str, Meta(pattern="^(jsonl|csv)$")] = "jsonl"


@POLICIES.add(
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
    policy_id = await call.opilio.policies.create(call.body, call.actor)
    return await call.opilio.insights.policy(policy_id)


@POLICIES.add(
    "GET", "/api/v1/policies", "read", "List policies", query=PolicyQuery, answer=list[Policy], tag="policies"
)
async def list_policies(call: Call) -> Any:
    q: PolicyQuery = call.query
    host = host_name(q.host)
    return await call.opilio.insights.policies(
        limit=q.limit, cursor=q.cursor, enabled=q.enabled, host=host, q=q.q
    )


@POLICIES.add(
    "POST",
    "/api/v1/policies/import",
    "write",
    "Import policies: every row is answered",
    query=ImportQuery,
    body=bytes,
    answer=ImportAnswer,
    errors=("unsupported_media_type",),
    tag="policies",
    media_types=("text/csv", "application/x-ndjson", "application/xml", "application/octet-stream"),
    body_factor=4,
)
async def import_policies(call: Call) -> Any:
    rows: list[ImportRow] = []
    readings = _readings(call.request.headers.get("content-type", ""), call.body)
    policies = call.opilio.policies
    batches = (
        preview_rows(policies, readings)
        if call.query.dry_run
        else import_rows(policies, readings, call.actor)
    )
    async for answers in batches:
        rows += answers
    counts = {
        status: sum(row.status == status for row in rows) for status in ("created", "updated", "rejected")
    }
    return ImportAnswer(rows=rows, **counts)


def _readings(content_type: str, body: bytes) -> Iterator[Reading]:
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/octet-stream":  # what generated clients send: told by its first sign
        kind = {b"<": "application/xml", b"{": "application/x-ndjson"}.get(
            body.removeprefix(b"\xef\xbb\xbf").lstrip()[:1], "text/csv"
        )
    if kind in ("application/xml", "text/xml"):
        return read_sitemap(body)
    readers = {"text/csv": read_csv, "application/x-ndjson": read_jsonl, "application/jsonl": read_jsonl}
    if kind not in readers:
        wanted = "text/csv, application/x-ndjson, application/xml (a sitemap) or application/octet-stream"
        raise Refused(
            "unsupported_media_type",
            "send %(wanted)s; this is %(kind)s",
            wanted=wanted,
            kind=kind or "nothing",
        )
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Invalid(
            "body", "is not UTF-8: %(reason)s at byte %(start)s", reason=error.reason, start=error.start
        ) from None
    lines: Iterable[str] = text.splitlines(keepends=True)
    return readers[kind](lines)


@POLICIES.add(
    "GET",
    "/api/v1/policies/export",
    "read",
    "Export all policies; the import reads it back",
    query=ExportQuery,
    raw_answers=("application/x-ndjson", "text/csv"),
    tag="policies",
)
async def export(call: Call) -> Response[Any]:
    kind = "text/csv" if call.query.format == "csv" else "application/x-ndjson"
    return Stream(_exported(call.opilio.insights, call.query.format), media_type=kind)


async def _exported(insights: CrawlInsights, form: str) -> AsyncIterator[str]:
    first = True
    async for policies in insights.export():
        lines = write_csv(policies, header=first) if form == "csv" else write_jsonl(policies)
        yield "".join(lines)
        first = False


@POLICIES.add(
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


@POLICIES.add(
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
    await call.opilio.policies.change(policy_id, call.body, call.actor)
    return await call.opilio.insights.policy(policy_id)


@POLICIES.add(
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
    if not await call.opilio.policies.delete([policy_id], call.actor):
        raise NotFound("there is no policy %(id)s", id=str(policy_id))
    return {"id": str(policy_id), "status": "deleted"}


@POLICIES.add(
    "POST",
    "/api/v1/policies/{id:str}/run",
    "write",
    "Run now, due or not; with an active job, that job is answered, and a retry waits no longer",
    answer=Job,
    errors=("not_found",),
    tag="policies",
)
async def run_policy(call: Call) -> Any:
    job_id = await call.opilio.operator_actions.run_now(call.uuid(), call.actor)
    return await call.opilio.insights.job(job_id)


@POLICIES.add(
    "GET",
    "/api/v1/policies/{id:str}/why",
    "read",
    "Why a policy is not being crawled now",
    answer=Why,
    errors=("not_found",),
    tag="policies",
)
async def policy_why(call: Call) -> Any:
    return (await call.opilio.insights.policy_why(call.uuid())).as_answer()


@POLICIES.add(
    "GET",
    "/api/v1/policies/{id:str}/recrawl",
    "read",
    "What an adaptive policy has learnt; null for a fixed one",
    answer=LearntSchedule | None,
    errors=("not_found",),
    tag="policies",
)
async def policy_recrawl(call: Call) -> Any:
    return await call.opilio.recrawl.policy(call.uuid())


@POLICIES.add(
    "GET",
    "/api/v1/recrawl",
    "read",
    "Budgets of adaptive policies: use, freshness, crawls saved",
    answer=list[Pool],
    tag="policies",
)
async def recrawl_pools(call: Call) -> Any:
    return whole(await call.opilio.recrawl.pools())


@POLICIES.add(
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
