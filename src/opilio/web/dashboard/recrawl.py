"""The adaptive schedule of the fleet: freshness, budgets, and pages that cost more than they give."""

from opilio.web.dashboard.page import Page, PageRequest, Section

RECRAWL = Section()


@RECRAWL.page("/adaptive")
async def adaptive(request: PageRequest) -> Page:
    pools = await request.opilio.recrawl.pools()
    return Page(
        "adaptive.html",
        request.locale.gettext("Adaptive schedule"),
        {"pools": pools, "costly": [page for pool in pools for page in pool.costly]},
        rows=pools,
    )
