"""Bulk actions: by ticked rows or by filter, with a preview, batch after batch, each answered.

Nothing is kept on the server: each batch's answer carries where the next one begins, and the page sends it. So it
works behind any number of replicas, and stops when the page is closed.
"""

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

import msgspec

from opilio.crawl.job import TRANSITIONS, Cause, State
from opilio.crawl.operator_actions import ActionResult
from opilio.errors import Invalid, Refused
from opilio.insights.dashboard import Choice
from opilio.web.dashboard.forms import uuid_of
from opilio.web.dashboard.jobs import job_filter
from opilio.web.dashboard.page import Page, PageRequest, Section
from opilio.web.dashboard.policies import policy_filter

BULK = Section()
_COUNT_UP_TO = 10_000
_BATCH = 200
_SHOWN = 50
_CAUSES = {"reset": Cause.RESET, "expire": Cause.EXPIRE, "release": Cause.RELEASE}
_POLICY_ACTIONS = ("run", "enable", "disable", "adaptive", "fixed", "delete")


class Outcome(msgspec.Struct, kw_only=True):
    """The result for one policy or job."""

    id: UUID
    error: str | None = None
    name: str = ""


# ── preview ──────────────────────────────────────────────────────────────────────────────────────


@BULK.action("/bulk/policies")
async def preview_policies(request: PageRequest) -> Page:
    action = _action(request, _POLICY_ACTIONS)
    found = await request.opilio.figures.policy_ids(
        policy_filter(request), _chosen(request), _COUNT_UP_TO + 1
    )
    return _preview(request, "policies", action, found, len(found), {})


@BULK.action("/bulk/jobs")
async def preview_jobs(request: PageRequest) -> Page:
    action = _action(request, tuple(_CAUSES))
    found = await request.opilio.figures.job_ids(job_filter(request), _chosen(request), _COUNT_UP_TO + 1)
    states = Counter(status for _, status in found)
    possible = {state for state, cause in TRANSITIONS if cause == _CAUSES[action]}
    cannot = {state: n for state, n in states.items() if State(state) not in possible}
    return _preview(
        request, "jobs", action, [job for job, _ in found], len(found) - sum(cannot.values()), cannot
    )


def _preview(
    request: PageRequest, kind: str, action: str, ids: Sequence[UUID], can: int, cannot: dict[str, int]
) -> Page:
    ticked = _by_rows(request)
    values = {
        "kind": kind,
        "action": action,
        "can": can,
        "cannot": cannot,
        "more": len(ids) > _COUNT_UP_TO,
        "total": len(ids),
        "ids": ids if ticked else [],
        # Rows created from now on are excluded, so that the action ends.
        "until": "" if ticked or not ids else _newest(ids),
        "query": request.http.url.query,
    }
    return Page("bulk.html", _title(request, kind, action, can), values)


def _title(request: PageRequest, kind: str, action: str, n: int) -> str:
    """The verb and the count, as on the button that does it."""
    ngettext = request.locale.ngettext
    titles = {
        ("policies", "run"): lambda: ngettext("Run %(n)s policy now", "Run %(n)s policies now", n),
        ("policies", "enable"): lambda: ngettext("Enable %(n)s policy", "Enable %(n)s policies", n),
        ("policies", "disable"): lambda: ngettext("Disable %(n)s policy", "Disable %(n)s policies", n),
        ("policies", "adaptive"): lambda: ngettext(
            "Switch %(n)s policy to the adaptive schedule",
            "Switch %(n)s policies to the adaptive schedule",
            n,
        ),
        ("policies", "fixed"): lambda: ngettext(
            "Switch %(n)s policy to a fixed schedule", "Switch %(n)s policies to a fixed schedule", n
        ),
        ("policies", "delete"): lambda: ngettext("Delete %(n)s policy", "Delete %(n)s policies", n),
        ("jobs", "reset"): lambda: ngettext("Retry %(n)s job", "Retry %(n)s jobs", n),
        ("jobs", "expire"): lambda: ngettext("Expire %(n)s lock", "Expire %(n)s locks", n),
        ("jobs", "release"): lambda: ngettext("Release %(n)s lock", "Release %(n)s locks", n),
    }
    return titles[kind, action]()


def _newest(ids: Sequence[UUID]) -> str:
    """The last id that is touched; with more than were counted, everything that exists now."""
    return "" if len(ids) > _COUNT_UP_TO else str(ids[-1])


# ── run ──────────────────────────────────────────────────────────────────────────────────────────


@BULK.action("/bulk/policies/run")
async def run_on_policies(request: PageRequest) -> Page:
    action = _action(request, _POLICY_ACTIONS)
    ids = await request.opilio.figures.policy_ids(policy_filter(request), _chosen(request), _BATCH)
    answers = await _act_on_policies(request, action, ids) if ids else []
    return await _progress(request, "policies", action, ids, answers)


@BULK.action("/bulk/jobs/run")
async def run_on_jobs(request: PageRequest) -> Page:
    action = _action(request, tuple(_CAUSES))
    found = await request.opilio.figures.job_ids(job_filter(request), _chosen(request), _BATCH)
    ids = [job for job, _ in found]
    acted = await _act_on_jobs(request, action, ids) if ids else []
    answers = [
        Outcome(id=a.job_id, error=request.locale.refusal(a.refusal) if a.refusal else None) for a in acted
    ]
    return await _progress(request, "jobs", action, ids, answers)


async def _act_on_policies(request: PageRequest, action: str, ids: list[UUID]) -> list[Outcome]:
    policies = request.opilio.policies
    if action == "delete":
        await policies.delete(ids, request.actor)
    elif action in ("enable", "disable"):
        await policies.set_enabled(ids, enabled=action == "enable", by=request.actor)
    elif action == "adaptive":
        await policies.set_schedule(ids, "adaptive", request.actor)
    elif action == "fixed":
        await policies.set_schedule(ids, "fixed", request.actor)
    else:
        return [await _run_one(request, policy_id) for policy_id in ids]
    return [Outcome(id=policy_id) for policy_id in ids]


async def _run_one(request: PageRequest, policy_id: UUID) -> Outcome:
    try:
        await request.opilio.operator_actions.run_now(policy_id, request.actor)
    except Refused as refusal:
        return Outcome(id=policy_id, error=request.locale.refusal(refusal))
    return Outcome(id=policy_id)


async def _act_on_jobs(request: PageRequest, action: str, ids: list[UUID]) -> list[ActionResult]:
    try:
        return await request.opilio.operator_actions.apply(action, ids, request.actor)
    except Refused:  # two jobs of one policy cannot both be active: the first is reset, the second refused
        return [await _act_on_one(request, action, job_id) for job_id in ids]


async def _act_on_one(request: PageRequest, action: str, job_id: UUID) -> ActionResult:
    try:
        return (await request.opilio.operator_actions.apply(action, [job_id], request.actor))[0]
    except Refused as refusal:
        return ActionResult(job_id, refusal=refusal)


async def _progress(
    request: PageRequest, kind: str, action: str, ids: Sequence[UUID], answers: list[Outcome]
) -> Page:
    refused = [answer for answer in answers if answer.error]
    shown = [*refused, *(answer for answer in answers if not answer.error)][:_SHOWN]
    names = await request.opilio.figures.names(kind, [answer.id for answer in shown])
    for answer in shown:
        answer.name = names.get(answer.id, str(answer.id))
    seen = _number(request, "seen") + len(answers)
    done = _number(request, "done") + len(answers) - len(refused)
    values = {
        "kind": kind,
        "action": action,
        "seen": seen,
        "done": done,
        "total": max(_number(request, "total"), seen),
        "outcomes": shown,
        "refused_count": seen - done,
        "after": ids[-1] if ids else "",
        "until": request.field("until") or "",
        "ids": request.form.get("row", []),
        "query": request.http.url.query,
        "finished": len(ids) < _BATCH,
    }
    return Page("parts/bulk_progress.html", "", values)


# ── the form ─────────────────────────────────────────────────────────────────────────────────────


def _action(request: PageRequest, possible: tuple[str, ...]) -> str:
    action = request.field("action") or (request.field("do") or "").partition(":")[2]
    if action not in possible:
        raise Invalid("action", "must be one of %(names)s", names=", ".join(possible))
    return action


def _chosen(request: PageRequest) -> Choice:
    after, until = request.field("after"), request.field("until")
    ticked = [uuid_of(text) for text in request.form.get("row", [])]
    by_rows = _by_rows(request)
    if by_rows and not ticked:
        raise Invalid("row", "select at least one row")
    return Choice(
        after=uuid_of(after) if after else None,
        until=uuid_of(until) if until else None,
        ids=ticked if by_rows else None,
    )


def _by_rows(request: PageRequest) -> bool:
    """Selected rows, not everything that matches the filter."""
    scope = request.field("scope") or (request.field("do") or "").partition(":")[0]
    return scope == "selected"


def _number(request: PageRequest, name: str) -> int:
    text = request.field(name) or "0"
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
