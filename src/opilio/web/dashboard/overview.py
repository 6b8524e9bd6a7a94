"""The overview: is crawling healthy, and if not, why?"""

from datetime import datetime, timedelta
from typing import Any

from opilio.insights.dashboard import SPANS
from opilio.insights.prices import PriceFilter
from opilio.web.dashboard.page import Page, PageRequest, Section
from opilio.web.dashboard.problems import problems

OVERVIEW = Section()
_MOVES = 6


@OVERVIEW.page("/")
@OVERVIEW.page("/overview")
async def overview(request: PageRequest) -> Page:
    system_status = await request.app.live.system_status()
    wanted = request.query("span")
    span = wanted if wanted in SPANS else await request.opilio.figures.usual_span(system_status.at)
    found = problems(system_status, request.locale)
    return Page(
        "overview.html",
        request.locale.gettext("Overview"),
        {
            "system_status": system_status,
            "problems": found,
            "span": span,
            "step": int(SPANS[span][1].total_seconds()),
            "moves": await _moves(request, system_status.at),
            "histograms": await request.opilio.figures.histograms(span),
        },
        data={"system_status": system_status, "problems": [problem.text for problem in found]},
        charts=True,
        watch="page=overview",
    )


async def _moves(request: PageRequest, now: datetime) -> list[Any]:
    """The biggest price changes of the last day."""
    day = now - timedelta(hours=24)
    found = await request.opilio.prices.changes(PriceFilter(), since=day, sort="size", page=1, size=_MOVES)
    return found[:_MOVES]


@OVERVIEW.page("/overview/series")
async def series(request: PageRequest) -> Page:
    """The charts' data; as a page, the overview itself."""
    rows = await request.opilio.figures.series(_span(request))
    return Page(None, "", rows=rows)


def _span(request: PageRequest) -> str:
    wanted = request.query("span") or "24h"
    return wanted if wanted in SPANS else "24h"
