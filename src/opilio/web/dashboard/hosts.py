"""Hosts: their limits, and which are cooling down."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from opilio.contracts.decoding import named
from opilio.contracts.management import CoolingPeriod, LimitsRequest
from opilio.crawl.politeness import Limits
from opilio.insights.dashboard import PolicyFilter
from opilio.web.dashboard.page import MAX_PAGE, Found, Page, PageRequest, Section, redirect

HOSTS = Section()
_SIZE = 50
_SORTS = ("attention", "host", "locked", "waiting", "policies")


@HOSTS.page("/hosts")
async def list_hosts(request: PageRequest) -> Page:
    number = request.page_number()
    figures = request.opilio.figures
    q, cooling = request.query("q"), request.flag("cooling")
    sort, reverse = request.sort(_SORTS)
    rows = await figures.hosts(q=q, cooling=cooling, sort=sort, reverse=reverse, page=number, size=_SIZE)
    found = Found(rows[:_SIZE], more=len(rows) > _SIZE)
    shown = found.items
    values = {
        "rows": shown,
        "more": found.more and number < MAX_PAGE,
        "number": number,
        "total": await found.total(request, lambda: request.opilio.sorted_lists.count_hosts(q, cooling)),
        "rates": await figures.error_rates([row["host"] for row in shown]),
        "fleet": request.opilio.settings.fleet_limits,
        "now": await request.app.live.now(),
        "edit": next((row for row in shown if row["host"] == request.query("edit")), None),
    }
    return Page("hosts.html", request.locale.gettext("Hosts"), values, rows=shown)


@HOSTS.page("/hosts/{id:str}")
async def one_host(request: PageRequest) -> Page:
    """One host: its state, its limits, and how crawls went over the last day."""
    host = await request.opilio.insights.host(request.name())
    failed = (await request.opilio.insights.jobs(host=host.host, status="failed", limit=20)).items
    policies = await request.opilio.figures.policies(
        PolicyFilter(host=host.host), sort="priority", page=1, size=10
    )
    now = await request.app.live.now()
    values = {
        "host": host,
        "failed": failed,
        "policies": policies[:10],
        "cooled": time_cooling(host.cooling_periods, now - timedelta(hours=24), now),
        "fleet": request.opilio.settings.fleet_limits,
        "now": now,
    }
    data = {"host": host, "failed": failed}
    return Page("host.html", host.host, values, data=data, charts=True)


def time_cooling(periods: Sequence[CoolingPeriod], since: datetime, now: datetime) -> timedelta:
    """How long a host was cooling in a span of time; periods do not overlap."""
    parts = (min(period.until, now) - max(period.began_at, since) for period in periods)
    return sum((part for part in parts if part > timedelta(0)), timedelta(0))


@HOSTS.page("/hosts/{id:str}/series")
async def host_over_time(request: PageRequest) -> Page:
    """How crawls of a host ended hour by hour, and when it was cooling down, for its chart."""
    name = request.name()
    hours = await request.opilio.activity.host(name)
    host = await request.opilio.insights.host(name)
    return Page(None, "", data={"hours": hours, "cooling": host.cooling_periods}, rows=hours)


@HOSTS.action("/hosts/limits")
async def set_limits(request: PageRequest) -> Any:
    said = {
        name: request.field(name) for name in ("max_concurrent", "min_delay_seconds") if request.field(name)
    }
    try:
        asked = msgspec.convert(said, LimitsRequest, strict=False)
    except msgspec.ValidationError as error:
        raise named(error) from None
    host = await request.opilio.hosts.set_limits(
        request.field("host") or "", Limits(asked.max_concurrent, asked.min_delay_seconds), request.actor
    )
    return redirect(
        f"/hosts?q={host}",
        request.locale.gettext("Limits of %(host)s saved.", host=host),
    )
