"""The overview: is crawling healthy, and if not, why?"""

from opilio.insights.dashboard import SPANS
from opilio.web.dashboard.page import Page, PageRequest, Section
from opilio.web.dashboard.problems import problems

OVERVIEW = Section()


@OVERVIEW.page("/")
@OVERVIEW.page("/overview")
async def overview(request: PageRequest) -> Page:
    span = _span(request)
    system_status = await request.app.live.system_status()
    found = problems(system_status, request.locale)
    return Page(
        "overview.html",
        request.locale.gettext("Overview"),
        {
            "system_status": system_status,
            "problems": found,
            "span": span,
            "histograms": await request.opilio.figures.histograms(span),
        },
        data={"system_status": system_status, "problems": [problem.text for problem in found]},
        charts=True,
        watch="page=overview",
    )


@OVERVIEW.page("/overview/series")
async def series(request: PageRequest) -> Page:
    """The charts' data; as a page, the overview itself."""
    rows = await request.opilio.figures.series(_span(request))
    return Page("refused.html", "", rows=rows)


def _span(request: PageRequest) -> str:
    wanted = request.query("span") or "24h"
    return wanted if wanted in SPANS else "24h"
