"""Value alerts: the list with what fired, and a form to add or change one."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec

from opilio.contracts.alerts import AlertInput, AlertPatch, ValueAlert
from opilio.contracts.decoding import named
from opilio.errors import Invalid, Refused
from opilio.insights.dashboard import PolicyFilter
from opilio.web.dashboard.forms import uuid_of
from opilio.web.dashboard.page import Page, PageRequest, Section, redirect

ALERTS = Section()
_SIZE = 50
# What people ask for, as a field and a condition of the API.
CHOICES = {
    "price_below": ("price", "below"),
    "price_above": ("price", "above"),
    "price_percent": ("price", "changed_percent"),
    "price_changed": ("price", "changed"),
    "back_in_stock": ("in_stock", "back_in_stock"),
    "data_below": ("data", "below"),
    "data_above": ("data", "above"),
    "data_changed": ("data", "changed"),
}
_EMPTY = {
    "name": "",
    "what": "price_below",
    "value": "",
    "currency": "",
    "path": "",
    "scope": "all",
    "target": "",
    "cooldown_hours": "24",
}


@ALERTS.page("/alerts")
async def list_alerts(request: PageRequest) -> Page:
    return await _page(request, _EMPTY | await _asked(request), "/alerts")


@ALERTS.action("/alerts")
async def create_alert(request: PageRequest) -> Any:
    try:
        made = await request.opilio.alerts.create(await _read(request, AlertInput), request.actor)
    except Refused as refusal:
        return await _page(request, _typed(request), "/alerts", refusal)
    message = request.locale.gettext("Alert %(name)s created.", name=made.name)
    return redirect("/alerts", message)


@ALERTS.page("/alerts/{id:str}")
async def edit_alert(request: PageRequest) -> Page:
    alert = await request.opilio.alerts.get(request.id())
    form = _shown(alert)
    if isinstance(alert.scope.policy_id, UUID):
        form["target"] = (await request.opilio.insights.policy(alert.scope.policy_id)).url
    return await _page(request, form, f"/alerts/{alert.id}")


@ALERTS.action("/alerts/{id:str}")
async def change_alert(request: PageRequest) -> Any:
    try:
        patch = await _read(request, AlertPatch)
        await request.opilio.alerts.change(request.id(), patch, request.actor)
    except Refused as refusal:
        return await _page(request, _typed(request), f"/alerts/{request.id()}", refusal)
    return redirect("/alerts", request.locale.gettext("Saved."))


@ALERTS.action("/alerts/{id:str}/switch")
async def switch_alert(request: PageRequest) -> Any:
    enabled = request.field("enabled") == "yes"
    await request.opilio.alerts.change(request.id(), AlertPatch(enabled=enabled), request.actor)
    gettext = request.locale.gettext
    return redirect("/alerts", gettext("Enabled.") if enabled else gettext("Disabled."))


@ALERTS.action("/alerts/{id:str}/delete")
async def delete_alert(request: PageRequest) -> Any:
    await request.opilio.alerts.delete(request.id(), request.actor)
    return redirect("/alerts", request.locale.gettext("Alert deleted."))


async def _page(
    request: PageRequest, form: Mapping[str, str], action: str, refusal: Refused | None = None
) -> Page:
    found = await request.opilio.alerts.page(limit=_SIZE, cursor=request.query("cursor"))
    values = {
        "items": found.items,
        "next_cursor": found.next_cursor,
        "names": await _names(request, found.items),
        "fired": await request.opilio.fired_alerts.newest([alert.id for alert in found.items]),
        "form": form,
        "action": action,
        "refusal": refusal,
    }
    status = 400 if refusal else 200
    return Page("alerts.html", request.locale.gettext("Alerts"), values, rows=found.items, status=status)


async def _names(request: PageRequest, alerts: Sequence[ValueAlert]) -> dict[UUID, str]:
    ids = [alert.scope.policy_id for alert in alerts if isinstance(alert.scope.policy_id, UUID)]
    return await request.opilio.figures.names("policies", ids) if ids else {}


# ── the form ─────────────────────────────────────────────────────────────────────────────────────


async def _asked(request: PageRequest) -> dict[str, str]:
    """A link from a product, a host or a label fills in the scope."""
    if policy_id := request.query("policy_id"):
        policy = await request.opilio.insights.policy(uuid_of(policy_id))
        return {"scope": "policy", "target": policy.url}
    for scope in ("host", "label"):
        if target := request.query(scope):
            return {"scope": scope, "target": target}
    return {}


def _typed(request: PageRequest) -> dict[str, str]:
    return {name: request.field(name) or "" for name in _EMPTY}


def _shown(alert: ValueAlert) -> dict[str, str]:
    field = "data" if alert.field.startswith("data.") else alert.field
    what = next((name for name, pair in CHOICES.items() if pair == (field, alert.when)), "price_changed")
    scope, target = scope_of(alert)
    return {
        "name": alert.name,
        "what": what,
        "value": "" if alert.value is None else f"{alert.value:f}",
        "currency": alert.currency or "",
        "path": alert.field.removeprefix("data.") if field == "data" else "",
        "scope": scope,
        "target": target,
        "cooldown_hours": f"{alert.cooldown_hours:g}",
    }


def scope_of(alert: ValueAlert) -> tuple[str, str]:
    """The scope as the form has it."""
    scope = alert.scope
    if isinstance(scope.policy_id, UUID):
        return "policy", str(scope.policy_id)
    if isinstance(scope.host, str):
        return "host", scope.host
    if isinstance(scope.labels, dict):
        return "label", ", ".join(f"{key}={value}" for key, value in scope.labels.items())
    return "all", ""


async def _read(request: PageRequest, kind: type[Any]) -> Any:
    """The form as the API would get it, so that both refuse the same."""
    field, when = CHOICES.get(request.field("what") or "", CHOICES["price_below"])
    if field == "data":
        field = f"data.{request.field('path') or ''}"
    with_value = when in ("below", "above", "changed_percent")
    body = {
        "name": request.field("name") or _usual_name(request),
        "scope": await _scope(request),
        "field": field,
        "when": when,
        "value": request.field("value") if with_value else None,
        "currency": request.field("currency") if field == "price" else None,
        "cooldown_hours": request.field("cooldown_hours") or 24,
    }
    try:
        return msgspec.convert(body, kind, strict=False)
    except msgspec.ValidationError as error:
        raise named(error) from None


def _usual_name(request: PageRequest) -> str:
    """A name for whoever does not want to think of one."""
    gettext = request.locale.gettext
    value = request.field("value") or ""
    return {
        "price_below": gettext("Price below %(value)s", value=value),
        "price_above": gettext("Price above %(value)s", value=value),
        "price_percent": gettext("Price changed by %(value)s %%", value=value),
        "price_changed": gettext("Price changed"),
        "back_in_stock": gettext("Back in stock"),
    }.get(request.field("what") or "", gettext("Value alert"))


async def _scope(request: PageRequest) -> dict[str, Any]:
    scope, target = request.field("scope") or "all", request.field("target") or ""
    if scope == "all":
        return {"all": True}
    if not target:
        raise Invalid("target", "write the host, the label or the product that the alert is for")
    if scope == "host":
        return {"host": target}
    if scope == "label":
        return {"labels": _labels(target)}
    return {"policy_id": await _policy(request, target)}


def _labels(text: str) -> dict[str, str]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    wrong = next((part for part in parts if "=" not in part), None)
    if wrong is not None:
        raise Invalid("labels", "write key=value; this is not: %(line)s", line=wrong[:60])
    return {key.strip(): value.strip() for key, _, value in (part.partition("=") for part in parts)}


async def _policy(request: PageRequest, target: str) -> str:
    """By its id or its URL."""
    try:
        return str((await request.opilio.insights.policy(UUID(target))).id)
    except ValueError:
        rows = await request.opilio.figures.policies(PolicyFilter(q=target), sort="newest", page=1, size=20)
    found = next((row["id"] for row in rows if target in (row["url"], row["last_title"])), None)
    if found is None and len(rows) != 1:
        raise Invalid("target", "there is no policy for %(target)s", target=target[:200])
    return str(found or rows[0]["id"])
