"""Create and edit policies, with a preview of the priority and the schedule."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec

from opilio.contracts.decoding import named
from opilio.contracts.policies import Policy, PolicyInput, PolicyPatch
from opilio.crawl import policy as rules
from opilio.crawl.priority import choose_queue
from opilio.crawl.url import normalise
from opilio.errors import Invalid, Refused
from opilio.web.dashboard.page import Page, PageRequest, Section, redirect
from opilio.web.dashboard.policies import rate, reasons_in_words
from opilio.web.dashboard.render import exact

POLICY_FORM = Section()
_HOURS = {"minutes": 1 / 60, "hours": 1.0, "days": 24.0}
_MAX_URLS = 500
_TEXTS = ("url", "priority", "max_retries", "retry_backoff_minutes", "timeout_minutes")
_OBJECTS = ("crawl_config", "rule_set")


@POLICY_FORM.page("/policies/new", need="write", as_data=False)
async def new_policy(request: PageRequest) -> Page:
    form = _shown(PolicyInput(url="https://")) | {"url": request.query("url") or ""}
    return _page(request.locale.gettext("New policy"), form, "/policies/new")


@POLICY_FORM.action("/policies/new")
async def create_policy(request: PageRequest) -> Any:
    urls = _urls(request)
    try:
        if len(urls) > _MAX_URLS:
            raise Invalid("url", "at most %(n)s at once; import a file instead", n=_MAX_URLS)
        created = [await _create(request, url) for url in urls or [""]]
    except Refused as refusal:
        return _page(request.locale.gettext("New policy"), _typed(request), "/policies/new", refusal)
    if len(created) > 1:
        message = request.locale.ngettext("%(n)s policy created.", "%(n)s policies created.", len(created))
        return redirect("/policies", message)
    return redirect(f"/policies/{created[0]}", request.locale.gettext("Created."))


def _urls(request: PageRequest) -> list[str]:
    lines = next(iter(request.form.get("url", [])), "").replace("\x00", "").splitlines()
    return list(dict.fromkeys(line.strip() for line in lines if line.strip()))


async def _create(request: PageRequest, url: str) -> UUID:
    wanted = _read(request, PolicyInput, url)
    policy_id = await request.opilio.policies.create(wanted, request.actor)
    if request.field("then") == "run":
        await request.opilio.operator_actions.run_now(policy_id, request.actor)
    return policy_id


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
    """The policy as the form stands: its priority with the reasons, its queue, what is wrong."""
    values: dict[str, Any] = {
        "fault": None,
        "rated": None,
        "reasons": [],
        "queue": "",
        "host": "",
        "hours": 0,
        "enabled": True,
        "empty": False,
    }
    urls = _urls(request)
    if not urls:
        return Page("parts/policy_preview.html", "", values | {"empty": True})
    try:
        wanted = _read(request, PolicyInput, urls[0])
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
    unit = _unit(policy.frequency_hours)
    fields |= {"frequency": _text(policy.frequency_hours / _HOURS[unit]), "frequency_unit": unit}
    fields["queue"] = policy.queue or ""
    fields["schedule"] = policy.schedule
    fields["enabled"] = "yes" if policy.enabled else ""
    fields["hot"] = "yes" if policy.hot else ""
    return fields


def _frequency(text: str, unit: str | None) -> float:
    try:
        return float(text) * _HOURS.get(unit or "hours", 1.0)
    except ValueError:
        raise Invalid("frequency_hours", "must be a number") from None


def _unit(hours: float) -> str:
    """The unit in which an interval is a short number."""
    if hours < 1:
        return "minutes"
    return "days" if hours >= 48 and hours % 24 == 0 else "hours"


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _typed(request: PageRequest) -> dict[str, str]:
    names = (
        *_TEXTS,
        *_OBJECTS,
        "labels",
        "queue",
        "schedule",
        "enabled",
        "hot",
        "frequency",
        "frequency_unit",
    )
    return {name: request.field(name) or "" for name in names}


def _read(request: PageRequest, kind: type[Any], url: str | None = None) -> Any:
    """The form as the API would get it, so that both refuse the same."""
    body: dict[str, Any] = {name: request.field(name) for name in _TEXTS if request.field(name)}
    if url is not None:
        body["url"] = url
    if frequency := request.field("frequency"):
        body["frequency_hours"] = _frequency(frequency, request.field("frequency_unit"))
    body |= {name: _object(name, request.field(name)) for name in _OBJECTS}
    body["labels"] = _labels(request.field("labels"))
    body["queue"] = request.field("queue")
    if schedule := request.field("schedule"):
        body["schedule"] = schedule
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
