"""The event log: what happened, and what was published about it."""

from typing import Any

import msgspec

from opilio.web.dashboard.page import Page, PageRequest, Section

EVENTS = Section()
_SIZE = 50


@EVENTS.page("/events")
async def list_events(request: PageRequest) -> Page:
    kind = request.query("type")
    found = await request.opilio.events.page(
        limit=_SIZE,
        cursor=request.query("cursor"),
        types=[kind] if kind else None,
        subject=request.query("subject"),
    )
    values = {"items": found.items, "next_cursor": found.next_cursor}
    return Page(
        "events.html", request.locale.gettext("Events"), values, rows=[_flat(event) for event in found.items]
    )


def _flat(event: Any) -> dict[str, Any]:
    fields = msgspec.structs.asdict(event)
    return fields | {"event": msgspec.json.decode(event.event)}
