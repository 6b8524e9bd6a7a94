"""Bulk actions: by ticked rows or by filter, with a preview, batch after batch, each answered.

Nothing is kept on the server: each batch's answer carries where the next one begins, and the page sends it. So it
works behind any number of replicas, and stops when the page is closed.
"""

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

import msgspec

from opilio.contracts.policies import Policy
from opilio.crawl.job import TRANSITIONS, Cause, State
from opilio.crawl.operator_actions import Acted
from opilio.errors import Invalid, Refused
from opilio.insights.dashboard import Choice
from opilio.web.dashboard.jobs import job_filter
from opilio.web.dashboard.page import Page, Site, Visit, uuid_of
from opilio.web.dashboard.policies import policy_filter, run_now

BULK = Site()
_COUNT_UP_TO = 10_000
_BATCH = 200
_CAUSES = {"reset": Cause.RESET, "expire": Cause.EXPIRE, "release": Cause.RELEASE}
_POLICY_ACTIONS = ("run", "enable", "disable", "delete")


class Answer(msgspec.Struct, kw_only=True):
    """What became of one thing."""

    id: UUID
    error: str | None = None


# ── preview ──────────────────────────────────────────────────────────────────────────────────────


@BULK.action("/bulk/policies")
async def preview_policies(visit: Visit) -> Page:
    action = _action(visit, _POLICY_ACTIONS)
    found = await visit.opilio.figures.policy_ids(policy_filter(visit), _chosen(visit), _COUNT_UP_TO + 1)
    return _preview(visit, "policies", action, found, len(found), {})


@BULK.action("/bulk/jobs")
async def preview_jobs(visit: Visit) -> Page:
    action = _action(visit, tuple(_CAUSES))
    found = await visit.opilio.figures.job_ids(job_filter(visit), _chosen(visit), _COUNT_UP_TO + 1)
    states = Counter(status for _, status in found)
    possible = {state for state, cause in TRANSITIONS if cause == _CAUSES[action]}
    cannot = {state: n for state, n in states.items() if State(state) not in possible}
    return _preview(
        visit, "jobs", action, [job for job, _ in found], len(found) - sum(cannot.values()), cannot
    )


def _preview(
    visit: Visit, kind: str, action: str, ids: Sequence[UUID], can: int, cannot: dict[str, int]
) -> Page:
    ticked = visit.said("scope") == "ticked"
    values = {
        "kind": kind,
        "action": action,
        "can": can,
        "cannot": cannot,
        "more": len(ids) > _COUNT_UP_TO,
        "total": len(ids),
        "ids": ids if ticked else [],
        # What is created from now on is left alone, so that the end comes.
        "until": "" if ticked or not ids else _newest(ids),
        "query": visit.request.url.query,
    }
    return Page("bulk.html", visit.words.say("Are you sure?"), values)


def _newest(ids: Sequence[UUID]) -> str:
    """The last id that is touched; with more than were counted, everything that exists now."""
    return "" if len(ids) > _COUNT_UP_TO else str(ids[-1])


# ── run ──────────────────────────────────────────────────────────────────────────────────────────


@BULK.action("/bulk/policies/run")
async def run_on_policies(visit: Visit) -> Page:
    action = _action(visit, _POLICY_ACTIONS)
    ids = await visit.opilio.figures.policy_ids(policy_filter(visit), _chosen(visit), _BATCH)
    answers = await _act_on_policies(visit, action, ids) if ids else []
    return await _progress(visit, "policies", action, ids, answers)


@BULK.action("/bulk/jobs/run")
async def run_on_jobs(visit: Visit) -> Page:
    action = _action(visit, tuple(_CAUSES))
    found = await visit.opilio.figures.job_ids(job_filter(visit), _chosen(visit), _BATCH)
    ids = [job for job, _ in found]
    acted = await _act_on_jobs(visit, action, ids) if ids else []
    answers = [Answer(id=a.job_id, error=a.refusal.message if a.refusal else None) for a in acted]
    return await _progress(visit, "jobs", action, ids, answers)


async def _act_on_policies(visit: Visit, action: str, ids: list[UUID]) -> list[Answer]:
    policies = visit.opilio.policies
    if action == "delete":
        await policies.delete(ids)
    elif action in ("enable", "disable"):
        await policies.switch(ids, enabled=action == "enable")
    else:
        return [await _run_one(visit, policy_id) for policy_id in ids]
    return [Answer(id=policy_id) for policy_id in ids]


async def _run_one(visit: Visit, policy_id: UUID) -> Answer:
    try:
        policy: Policy = await visit.opilio.insights.policy(policy_id)
        await run_now(visit, policy)
    except Refused as refusal:
        return Answer(id=policy_id, error=refusal.message)
    return Answer(id=policy_id)


async def _act_on_jobs(visit: Visit, action: str, ids: list[UUID]) -> list[Acted]:
    try:
        return await visit.opilio.acting.act(action, ids, visit.actor)
    except Refused:  # two jobs of one policy cannot be revived together: the first is, the second is answered
        return [await _act_on_one(visit, action, job_id) for job_id in ids]


async def _act_on_one(visit: Visit, action: str, job_id: UUID) -> Acted:
    try:
        return (await visit.opilio.acting.act(action, [job_id], visit.actor))[0]
    except Refused as refusal:
        return Acted(job_id, refusal=refusal)


async def _progress(visit: Visit, kind: str, action: str, ids: Sequence[UUID], answers: list[Answer]) -> Page:
    refused = [answer for answer in answers if answer.error]
    seen = _number(visit, "seen") + len(answers)
    done = _number(visit, "done") + len(answers) - len(refused)
    if answers:
        visit.app.desk.work_appeared()
        await visit.note(f"{kind}.{action}", kind, {"count": len(answers) - len(refused)})
    values = {
        "kind": kind,
        "action": action,
        "seen": seen,
        "done": done,
        "total": max(_number(visit, "total"), seen),
        "refused": refused[:50],
        "refused_count": seen - done,
        "after": ids[-1] if ids else "",
        "until": visit.said("until") or "",
        "ids": visit.form.get("row", []),
        "query": visit.request.url.query,
        "finished": len(ids) < _BATCH,
    }
    return Page("parts/bulk_progress.html", "", values)


# ── the form ─────────────────────────────────────────────────────────────────────────────────────


def _action(visit: Visit, possible: tuple[str, ...]) -> str:
    action = visit.said("action") or ""
    if action not in possible:
        raise Invalid("action", f"must be one of {', '.join(possible)}")
    return action


def _chosen(visit: Visit) -> Choice:
    after, until = visit.said("after"), visit.said("until")
    ticked = [uuid_of(text) for text in visit.form.get("row", [])]
    by_rows = visit.said("scope") == "ticked"
    if by_rows and not ticked:
        raise Invalid("row", "nothing is ticked")
    return Choice(
        after=uuid_of(after) if after else None,
        until=uuid_of(until) if until else None,
        ids=ticked if by_rows else None,
    )


def _number(visit: Visit, name: str) -> int:
    text = visit.said(name) or "0"
    return int(text) if text.isdigit() and len(text) < 10 else 0
