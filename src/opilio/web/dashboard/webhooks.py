"""Webhook endpoints: the list, and the page of one with its delivery attempts."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from opilio.contracts.decoding import named
from opilio.contracts.webhooks import EndpointCreate, EndpointPatch, ReplayRequest, SecretRotation
from opilio.errors import Invalid
from opilio.web.dashboard.forms import uuid_of
from opilio.web.dashboard.page import Page, PageRequest, Section, redirect

WEBHOOKS = Section()
_SIZE = 50
_MAX_ANSWER = 800
_SINCE = {"1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=7)}


@WEBHOOKS.page("/webhooks")
async def list_webhooks(request: PageRequest) -> Page:
    found = await request.opilio.webhooks.page(limit=_SIZE, cursor=request.query("cursor"))
    values = {"items": found.items, "next_cursor": found.next_cursor}
    return Page("webhooks.html", request.locale.gettext("Webhooks"), values, rows=found.items)


@WEBHOOKS.action("/webhooks")
async def create_webhook(request: PageRequest) -> Any:
    """The secret is shown once, on the next page."""
    said = {
        "url": request.field("url"),
        "events": (request.field("events") or "").replace(",", " ").split(),
        "description": request.field("description") or "",
    }
    try:
        wanted = msgspec.convert(said, EndpointCreate)
    except msgspec.ValidationError as error:
        raise named(error) from None
    made = await request.opilio.webhooks.create(wanted, actor=request.actor)
    return redirect(f"/webhooks/{made.id}", show_once={"secret": made.secret})


@WEBHOOKS.page("/webhooks/{id:str}")
async def one_webhook(request: PageRequest) -> Page:
    endpoint_id = request.id()
    endpoint = await request.opilio.webhooks.get(endpoint_id)
    attempts = await request.opilio.webhooks.attempts(
        endpoint_id, limit=_SIZE, cursor=request.query("cursor")
    )
    values = {
        "endpoint": endpoint,
        "attempts": attempts.items,
        "next_cursor": attempts.next_cursor,
        "secret": None,
        "test": None,
        "spans": list(_SINCE),
    }
    data = {"endpoint": endpoint, "attempts": attempts.items}
    return Page(
        "webhook.html",
        endpoint.url,
        values | request.shown_once(),
        data=data,
        rows=attempts.items,
        charts=bool(attempts.items),
    )


@WEBHOOKS.page("/webhooks/{id:str}/series")
async def deliveries_over_time(request: PageRequest) -> Page:
    """Deliveries and latency of an endpoint, for its chart."""
    return Page(None, "", rows=await request.opilio.activity.webhook(request.id()))


@WEBHOOKS.action("/webhooks/{id:str}/switch")
async def switch_webhook(request: PageRequest) -> Any:
    enabled = request.field("enabled") == "yes"
    await request.opilio.webhooks.change(request.id(), EndpointPatch(enabled=enabled), actor=request.actor)
    gettext = request.locale.gettext
    return redirect(f"/webhooks/{request.id()}", gettext("Enabled.") if enabled else gettext("Disabled."))


@WEBHOOKS.action("/webhooks/{id:str}/test")
async def test_webhook(request: PageRequest) -> Any:
    result = msgspec.to_builtins(await request.opilio.webhooks.test(request.id(), actor=request.actor))
    result["answer"] = (result.get("answer") or "")[:_MAX_ANSWER]
    return redirect(f"/webhooks/{request.id()}", show_once={"test": result})


@WEBHOOKS.action("/webhooks/{id:str}/secret")
async def rotate_secret(request: PageRequest) -> Any:
    rotated = await request.opilio.webhooks.rotate_secret(request.id(), SecretRotation(), actor=request.actor)
    return redirect(f"/webhooks/{rotated.id}", show_once={"secret": rotated.secret})


@WEBHOOKS.page("/webhooks/{id:str}/resend", need="write", as_data=False)
async def confirm_resend(request: PageRequest) -> Page:
    """How many events would be sent again: nobody floods a receiver by one click."""
    since = request.query("since") or "1h"
    if since not in _SINCE:
        raise Invalid("since", "must be one of %(names)s", names=", ".join(_SINCE))
    endpoint = await request.opilio.webhooks.get(request.id())
    count = await request.opilio.figures.events_to_resend(endpoint.id, datetime.now(UTC) - _SINCE[since])
    values = {"endpoint": endpoint, "since": since, "count": count, "spans": list(_SINCE)}
    return Page("resend.html", request.locale.gettext("Resend events"), values)


@WEBHOOKS.action("/webhooks/{id:str}/replay")
async def replay_webhook(request: PageRequest) -> Any:
    """One event by its id, or all that the endpoint wants since a while ago."""
    event_id, since = request.field("event"), request.field("since")
    if event_id:
        wanted = ReplayRequest(ids=[uuid_of(event_id)])
    elif since in _SINCE:
        wanted = ReplayRequest(since=datetime.now(UTC) - _SINCE[since])
    else:
        raise Invalid("since", "must be one of %(names)s", names=", ".join(_SINCE))
    answer = await request.opilio.webhooks.replay(request.id(), wanted, actor=request.actor)
    message = request.locale.ngettext(
        "%(n)s event queued for delivery.", "%(n)s events queued for delivery.", answer.replayed
    )
    return redirect(request.return_path(f"/webhooks/{request.id()}"), message)


@WEBHOOKS.action("/webhooks/{id:str}/delete")
async def delete_webhook(request: PageRequest) -> Any:
    await request.opilio.webhooks.delete(request.id(), actor=request.actor)
    return redirect("/webhooks", request.locale.gettext("Webhook deleted."))
