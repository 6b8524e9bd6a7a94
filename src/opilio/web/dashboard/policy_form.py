"""Create and edit a policy, with the priority that it would get and when it would run."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from opilio.contracts.policies import Policy, PolicyInput, PolicyPatch
from opilio.crawl import policy as rules
from opilio.crawl.priority import choose_queue
from opilio.crawl.url import normalise
from opilio.errors import Invalid, Refused
from opilio.web.codec import named
from opilio.web.dashboard.page import Page, Site, Visit, go
from opilio.web.dashboard.policies import rate, reasons_in_words
from opilio.web.dashboard.render import exact

POLICY_FORM = Site()
_TEXTS = ("url", "frequency_hours", "priority", "max_retries", "retry_backoff_minutes", "timeout_minutes")
_OBJECTS = ("crawl_config", "rule_set")


@POLICY_FORM.page("/policies/new", need="write", twins=False)
async def new_policy(visit: Visit) -> Page:
    wanted = PolicyInput(url=visit.arg("url") or "https://")
    return _page(visit.words.say("New policy"), _shown(wanted), "/policies/new")


@POLICY_FORM.action("/policies/new")
async def create_policy(visit: Visit) -> Any:
    try:
        wanted = _read(visit, PolicyInput)
        policy_id = await visit.opilio.policies.create(wanted)
    except Refused as refusal:
        return _page(visit.words.say("New policy"), _typed(visit), "/policies/new", refusal)
    await visit.note("policy.create", str(policy_id), {"url": wanted.url})
    return go(f"/policies/{policy_id}", visit.words.say("Created."))


@POLICY_FORM.page("/policies/{id:str}/edit", need="write", twins=False)
async def edit_policy(visit: Visit) -> Page:
    policy = await visit.opilio.insights.policy(visit.id())
    return _page(visit.words.say("Edit the policy"), _shown(policy), f"/policies/{policy.id}/edit")


@POLICY_FORM.action("/policies/{id:str}/edit")
async def change_policy(visit: Visit) -> Any:
    path = f"/policies/{visit.id()}"
    try:
        patch = _read(visit, PolicyPatch)
        await visit.opilio.policies.change(visit.id(), patch)
    except Refused as refusal:
        return _page(visit.words.say("Edit the policy"), _typed(visit), f"{path}/edit", refusal)
    visit.app.desk.work_appeared()
    await visit.note("policy.change", str(visit.id()), msgspec.to_builtins(patch))
    return go(path, visit.words.say("Saved."))


@POLICY_FORM.action("/policies/preview", need="read")
async def preview(visit: Visit) -> Page:
    """What would become of the form as it stands: the priority with its reasons, the queue, the faults."""
    values: dict[str, Any] = {
        "fault": None,
        "rated": None,
        "reasons": [],
        "queue": "",
        "host": "",
        "hours": 0,
        "enabled": True,
    }
    try:
        wanted = _read(visit, PolicyInput)
        rules.check(wanted)
        values["host"] = normalise(wanted.url, visit.opilio.settings.crawl_allow).host
        values |= {"hours": wanted.frequency_hours, "enabled": wanted.enabled}
        values["rated"] = rate(visit, wanted)
        values["reasons"] = reasons_in_words(visit, values["rated"])
        values["queue"] = choose_queue(wanted.queue, wanted.crawl_config)
    except Refused as refusal:
        values["fault"] = refusal.message
    return Page("parts/policy_preview.html", "", values)


def _page(title: str, form: Mapping[str, str], action: str, refusal: Refused | None = None) -> Page:
    values = {"form": form, "action": action, "refusal": refusal}
    return Page("policy_form.html", title, values, status=400 if refusal else 200)


def _shown(policy: PolicyInput | Policy) -> dict[str, str]:
    """A policy as the fields of the form."""
    fields = {name: _text(getattr(policy, name)) for name in _TEXTS}
    fields |= {name: exact(getattr(policy, name)) if getattr(policy, name) else "" for name in _OBJECTS}
    fields["labels"] = "\n".join(f"{key}={value}" for key, value in policy.labels.items())
    fields["queue"] = policy.queue or ""
    fields["enabled"] = "yes" if policy.enabled else ""
    fields["hot"] = "yes" if policy.hot else ""
    return fields


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _typed(visit: Visit) -> dict[str, str]:
    names = (*_TEXTS, *_OBJECTS, "labels", "queue", "enabled", "hot")
    return {name: visit.said(name) or "" for name in names}


def _read(visit: Visit, kind: type[Any]) -> Any:
    """The form as the API would get it, so that both refuse the same."""
    body: dict[str, Any] = {name: visit.said(name) for name in _TEXTS if visit.said(name)}
    body |= {name: _object(name, visit.said(name)) for name in _OBJECTS}
    body["labels"] = _labels(visit.said("labels"))
    body["queue"] = visit.said("queue")
    body["enabled"] = visit.said("enabled") == "yes"
    body["hot"] = visit.said("hot") == "yes"
    if moment := visit.said("next_run_at"):
        body["next_run_at"] = _moment(moment)
    try:
        return msgspec.convert(body, kind, strict=False)
    except msgspec.ValidationError as error:
        raise named(error) from None


def _object(name: str, text: str | None) -> Any:
    try:
        return msgspec.json.decode(text) if text else {}
    except msgspec.DecodeError as error:
        raise Invalid(name, f"is not JSON: {error}") from None


def _labels(text: str | None) -> dict[str, str]:
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    wrong = next((line for line in lines if "=" not in line), None)
    if wrong is not None:
        raise Invalid("labels", f"one key=value a line; this is none: {wrong[:60]}")
    return {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines)}


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid("next_run_at", "is no date and time") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
