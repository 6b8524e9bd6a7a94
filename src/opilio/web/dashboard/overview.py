"""The overview: is crawling healthy, and if not, why?"""

from opilio.insights.dashboard import SPANS
from opilio.web.dashboard.page import Page, Site, Visit
from opilio.web.dashboard.problems import problems

OVERVIEW = Site()


@OVERVIEW.page("/")
@OVERVIEW.page("/overview")
async def overview(visit: Visit) -> Page:
    span = _span(visit)
    pulse = await visit.app.live.pulse()
    found = problems(pulse, visit.words)
    return Page(
        "overview.html",
        visit.words.say("Overview"),
        {
            "pulse": pulse,
            "problems": found,
            "span": span,
            "histograms": await visit.opilio.figures.histograms(span),
        },
        data={"pulse": pulse, "problems": [problem.text for problem in found]},
        charts=True,
        watch="page=overview",
    )


@OVERVIEW.page("/overview/series")
async def series(visit: Visit) -> Page:
    """The charts' data; as a page, the overview itself."""
    rows = await visit.opilio.figures.series(_span(visit))
    return Page("refused.html", "", rows=rows)


def _span(visit: Visit) -> str:
    wanted = visit.arg("span") or "24h"
    return wanted if wanted in SPANS else "24h"
