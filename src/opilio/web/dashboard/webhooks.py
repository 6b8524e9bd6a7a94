"""What goes out: webhook endpoints with every attempt, the log of events, dead letters."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from opilio.contracts.webhooks import EndpointCreate, EndpointPatch, ReplayRequest, SecretRotation
from opilio.errors import Invalid
from opilio.web.codec import named
from opilio.web.dashboard.page import Page, Site, Visit, go, uuid_of

OUTGOING = Site()
_SIZE = 50
_SINCE = {"1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=7)}


# ── webhooks ─────────────────────────────────────────────────────────────────────────────────────


@OUTGOING.page("/webhooks")
async def list_webhooks(visit: Visit) -> Page:
    found = await visit.opilio.webhooks.page(limit=_SIZE, cursor=visit.arg("cursor"))
    values = {"items": found.items, "next_cursor": found.next_cursor}
    return Page("webhooks.html", visit.words.say("Webhooks"), values, rows=found.items)


@OUTGOING.action("/webhooks")
async def create_webhook(visit: Visit) -> Page:
    """The secret is in this one answer and nowhere else."""
    said = {
        "url": visit.said("url"),
        "events": (visit.said("events") or "").replace(",", " ").split(),
        "description": visit.said("description") or "",
    }
    try:
        wanted = msgspec.convert(said, EndpointCreate)
    except msgspec.ValidationError as error:
        raise named(error) from None
    made = await visit.opilio.webhooks.create(wanted)
    await visit.note("webhook.create", str(made.id), {"url": made.url})
    return await _webhook(visit, made.id, secret=made.secret)


@OUTGOING.page("/webhooks/{id:str}")
async def one_webhook(visit: Visit) -> Page:
    return await _webhook(visit, visit.id())


async def _webhook(visit: Visit, endpoint_id: Any, **shown: Any) -> Page:
    endpoint = await visit.opilio.webhooks.get(endpoint_id)
    attempts = await visit.opilio.webhooks.attempts(endpoint_id, limit=_SIZE, cursor=visit.arg("cursor"))
    values = {
        "endpoint": endpoint,
        "attempts": attempts.items,
        "next_cursor": attempts.next_cursor,
        "secret": None,
        "test": None,
        "spans": list(_SINCE),
    }
    data = {"endpoint": endpoint, "attempts": attempts.items}
    return Page("webhook.html", endpoint.url, values | shown, data=data, rows=attempts.items)


@OUTGOING.action("/webhooks/{id:str}/switch")
async def switch_webhook(visit: Visit) -> Any:
    enabled = visit.said("enabled") == "yes"
    await visit.opilio.webhooks.patch(visit.id(), EndpointPatch(enabled=enabled))
    await visit.note("webhook.change", str(visit.id()), {"enabled": enabled})
    say = visit.words.say
    return go(f"/webhooks/{visit.id()}", say("Switched on.") if enabled else say("Switched off."))


@OUTGOING.action("/webhooks/{id:str}/test")
async def test_webhook(visit: Visit) -> Page:
    return await _webhook(visit, visit.id(), test=await visit.opilio.webhooks.test(visit.id()))


@OUTGOING.action("/webhooks/{id:str}/secret")
async def rotate_secret(visit: Visit) -> Page:
    rotated = await visit.opilio.webhooks.rotate_secret(visit.id(), SecretRotation())
    await visit.note("webhook.rotate", str(rotated.id))
    return await _webhook(visit, rotated.id, secret=rotated.secret)


@OUTGOING.action("/webhooks/{id:str}/replay")
async def replay_webhook(visit: Visit) -> Any:
    """One event by its id, or all that the endpoint wants since a while ago."""
    event_id, since = visit.said("event"), visit.said("since")
    if event_id:
        wanted = ReplayRequest(ids=[uuid_of(event_id)])
    elif since in _SINCE:
        wanted = ReplayRequest(since=datetime.now(UTC) - _SINCE[since])
    else:
        raise Invalid("since", f"must be one of {', '.join(_SINCE)}")
    answer = await visit.opilio.webhooks.replay(visit.id(), wanted)
    await visit.note("webhook.replay", str(visit.id()), {"replayed": answer.replayed})
    message = visit.words.counted(
        "%(n)s event goes out again.", "%(n)s events go out again.", answer.replayed
    )
    return go(visit.back(f"/webhooks/{visit.id()}"), message)


@OUTGOING.action("/webhooks/{id:str}/delete")
async def delete_webhook(visit: Visit) -> Any:
    await visit.opilio.webhooks.delete(visit.id())
    await visit.note("webhook.delete", str(visit.id()))
    return go("/webhooks", visit.words.say("The webhook is gone, and what waited for it."))


# ── events ───────────────────────────────────────────────────────────────────────────────────────


@OUTGOING.page("/events")
async def list_events(visit: Visit) -> Page:
    kind = visit.arg("type")
    found = await visit.opilio.events.page(
        limit=_SIZE, cursor=visit.arg("cursor"), types=[kind] if kind else None, subject=visit.arg("subject")
    )
    values = {"items": found.items, "next_cursor": found.next_cursor}
    return Page(
        "events.html", visit.words.say("Events"), values, rows=[_flat(event) for event in found.items]
    )


def _flat(event: Any) -> dict[str, Any]:
    fields = msgspec.structs.asdict(event)
    return fields | {"event": msgspec.json.decode(event.event)}


# ── dead letters ─────────────────────────────────────────────────────────────────────────────────


@OUTGOING.page("/dlq")
async def list_dead_letters(visit: Visit) -> Page:
    found = await visit.opilio.dead_letters.page(
        limit=_SIZE, cursor=visit.arg("cursor"), queue=visit.arg("queue")
    )
    values = {"items": found.items, "next_cursor": found.next_cursor}
    return Page("dlq.html", visit.words.say("Dead letters"), values, rows=found.items)


@OUTGOING.page("/dlq/{id:str}")
async def one_dead_letter(visit: Visit) -> Page:
    letter = await visit.opilio.dead_letters.get(visit.id())
    return Page("dead_letter.html", visit.words.say("Dead letter"), {"letter": letter}, data=letter)


@OUTGOING.action("/dlq/{id:str}/replay")
async def replay_dead_letter(visit: Visit) -> Any:
    letter = await visit.opilio.dead_letters.replay(visit.id())
    await visit.note("dlq.replay", str(letter.id), {"queue": letter.queue})
    return go(f"/dlq/{letter.id}", visit.words.say("It was sent again."))
