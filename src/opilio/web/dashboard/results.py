"""Results: what crawls found, and the crawled page in a sandbox."""

from typing import Any

from litestar import Response

from opilio.errors import NotFound
from opilio.web.dashboard.forms import uuid_of
from opilio.web.dashboard.page import Page, PageRequest, Section

RESULTS = Section()
# Nothing of a crawled page may run, load or send; its inline styles may apply.
_HARMLESS = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'"


@RESULTS.page("/results")
async def list_results(request: PageRequest) -> Page:
    policy_id = request.query("policy_id")
    found = await request.opilio.insights.results(
        limit=50,
        cursor=request.query("cursor"),
        policy_id=uuid_of(policy_id) if policy_id else None,
        like=await request.opilio.figures.policies_like(request.query("q")),
        currency=(request.query("currency") or "").upper() or None,
        in_stock=request.flag("stock"),
        since=request.moment("since"),
        until=request.moment("until", is_end=True),
    )
    values = {"items": found.items, "next_cursor": found.next_cursor}
    return Page("results.html", request.locale.gettext("Results"), values, rows=found.items)


@RESULTS.page("/results/{id:str}/page", as_data=False)
async def page_of_result(request: PageRequest) -> Response[Any]:
    """The HTML as it was crawled, for the sandboxed frame of the job's page and for nothing else."""
    result = await request.opilio.insights.result(request.id(), request.opilio.pages.get_page)
    if result.raw_html is None:
        raise NotFound("the page of this result was not stored")
    headers = {
        "content-security-policy": _HARMLESS,
        "x-frame-options": "SAMEORIGIN",
        "cache-control": "no-store",
        "referrer-policy": "no-referrer",
    }
    return Response(result.raw_html.encode(), media_type="text/html; charset=utf-8", headers=headers)
