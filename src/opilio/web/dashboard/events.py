"""The event log: what happened, and what was published about it."""

from contextlib import suppress
from typing import Any
from uuid import UUID

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
    rows = [_flat(event) for event in found.items]
    values = {
        "items": found.items,
        "next_cursor": found.next_cursor,
        "names": await _names(request, rows),
    }
    return Page("events.html", request.locale.gettext("Events"), values, rows=rows)


async def _names(request: PageRequest, rows: list[dict[str, Any]]) -> dict[Any, str]:
    """What people call the subjects: the product of an event about a policy or its jobs."""
    policies: dict[Any, UUID] = {}
    for row in rows:
        data = row["event"].get("data")
        policy_id = data.get("policy_id") if isinstance(data, dict) else None
        if isinstance(policy_id, str):
            with suppress(ValueError):
                policies[row["id"]] = UUID(policy_id)
    if not policies:
        return {}
    names = await request.opilio.figures.names("policies", list(set(policies.values())))
    return {event_id: names[policy_id] for event_id, policy_id in policies.items() if policy_id in names}


def _flat(event: Any) -> dict[str, Any]:
    fields = msgspec.structs.asdict(event)
    content = msgspec.json.decode(event.event)
    return fields | {"event": content if isinstance(content, dict) else {"data": content}}
