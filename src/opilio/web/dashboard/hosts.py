"""Hosts: how politely each is visited, and which are left alone now."""

from typing import Any

import msgspec

from opilio.contracts.management import LimitsRequest
from opilio.crawl.politeness import Limits
from opilio.web.codec import named
from opilio.web.dashboard.page import Page, Site, Visit, go

HOSTS = Site()
_SIZE = 50


@HOSTS.page("/hosts")
async def list_hosts(visit: Visit) -> Page:
    number = visit.page_number()
    figures = visit.opilio.figures
    rows = await figures.hosts(q=visit.arg("q"), cooling=visit.flag("cooling"), page=number, size=_SIZE)
    shown = rows[:_SIZE]
    values = {
        "rows": shown,
        "more": len(rows) > _SIZE,
        "number": number,
        "rates": await figures.error_rates([row["host"] for row in shown]),
        "fleet": visit.opilio.settings.fleet_limits,
        "now": (await visit.app.live.pulse()).at,
        "edit": next((row for row in shown if row["host"] == visit.arg("edit")), None),
    }
    return Page("hosts.html", visit.words.say("Hosts"), values, rows=shown)


@HOSTS.action("/hosts/limits")
async def set_limits(visit: Visit) -> Any:
    said = {name: visit.said(name) for name in ("max_concurrent", "min_delay_seconds") if visit.said(name)}
    try:
        asked = msgspec.convert(said, LimitsRequest, strict=False)
    except msgspec.ValidationError as error:
        raise named(error) from None
    host = await visit.opilio.hosts.set_limits(
        visit.said("host") or "", Limits(asked.max_concurrent, asked.min_delay_seconds)
    )
    visit.app.desk.work_appeared()
    await visit.note("host.limits", host, msgspec.to_builtins(asked))
    return go(
        f"/hosts?q={host}", visit.words.say("The limits of %(host)s hold from the next pull on.", host=host)
    )
