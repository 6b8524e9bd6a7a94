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
from opilio.web.dashboard.page import Page, PageRequest, Section, redirect
from opilio.web.dashboard.policies import rate, reasons_in_words
from opilio.web.dashboard.render import exact

POLICY_FORM = Section()
_TEXTS = ("url", "frequency_hours", "priority", "max_retries", "retry_backoff_minutes", "timeout_minutes")
_OBJECTS = ("crawl_config", "rule_set")


@POLICY_FORM.page("/policies/new", need="write", as_data=False)
async def new_policy(request: PageRequest) -> Page:
    wanted = PolicyInput(url=request.query("url") or "https://")
    return _page(request.locale.gettext("New policy"), _shown(wanted), "/policies/new")


@POLICY_FORM.action("/policies/new")
async def create_policy(request: PageRequest) -> Any:
    try:
        wanted = _read(request, PolicyInput)
        policy_id = await request.opilio.policies.create(wanted, request.actor)
    except Refused as refusal:
        return _page(request.locale.gettext("New policy"), _typed(request), "/policies/new", refusal)
    return redirect(f"/policies/{policy_id}", request.locale.gettext("Created."))


@POLICY_FORM.page("/policies/{id:str}/edit", need="write", as_data=False)
async def edit_policy(request: PageRequest) -> Page:
    policy = await request.opilio.insights.policy(request.id())
    return _page(request.locale.gettext("Edit policy"), _shown(policy), f"/policies/{policy.id}/edit")


@POLICY_FORM.action("/policies/{id:str}/edit")
async def change_policy(request: PageRequest) -> Any:
    path = f"/policies/{request.id()}"
    try:
        patch = _read(request, PolicyPatch)
        await request.opilio.policies.change(request.id(), patch, request.actor)
    except Refused as refusal:
        return _page(request.locale.gettext("Edit policy"), _typed(request), f"{path}/edit", refusal)
    return redirect(path, request.locale.gettext("Saved."))


@POLICY_FORM.action("/policies/preview", need="read")
async def preview(request: PageRequest) -> Page:
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
        wanted = _read(request, PolicyInput)
        rules.check(wanted)
        values["host"] = normalise(wanted.url, request.opilio.settings.crawl_allow).host
        values |= {"hours": wanted.frequency_hours, "enabled": wanted.enabled}
        values["rated"] = rate(request, wanted)
        values["reasons"] = reasons_in_words(request, values["rated"])
        values["queue"] = choose_queue(wanted.queue, wanted.crawl_config)
    except Refused as refusal:
        values["fault"] = request.locale.refusal(refusal)
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


def _typed(request: PageRequest) -> dict[str, str]:
    names = (*_TEXTS, *_OBJECTS, "labels", "queue", "enabled", "hot")
    return {name: request.field(name) or "" for name in names}


def _read(request: PageRequest, kind: type[Any]) -> Any:
    """The form as the API would get it, so that both refuse the same."""
    body: dict[str, Any] = {name: request.field(name) for name in _TEXTS if request.field(name)}
    body |= {name: _object(name, request.field(name)) for name in _OBJECTS}
    body["labels"] = _labels(request.field("labels"))
    body["queue"] = request.field("queue")
    body["enabled"] = request.field("enabled") == "yes"
    body["hot"] = request.field("hot") == "yes"
    if moment := request.field("next_run_at"):
        body["next_run_at"] = _moment(moment)
    try:
        return msgspec.convert(body, kind, strict=False)
    except msgspec.ValidationError as error:
        raise named(error) from None


def _object(name: str, text: str | None) -> Any:
    try:
        return msgspec.json.decode(text) if text else {}
    except msgspec.DecodeError as error:
        raise Invalid(name, "is not JSON: %(why)s", why=error) from None


def _labels(text: str | None) -> dict[str, str]:
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    wrong = next((line for line in lines if "=" not in line), None)
    if wrong is not None:
        raise Invalid("labels", "write one key=value per line; this line is not: %(line)s", line=wrong[:60])
    return {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines)}


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid("next_run_at", "must be a date and time") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
