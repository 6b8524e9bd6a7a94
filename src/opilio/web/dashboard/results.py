"""Results: what crawls found, and the page that they found it on, made harmless."""

from typing import Any

from litestar import Response

from opilio.errors import NotFound
from opilio.web.dashboard.page import Page, Site, Visit, uuid_of

RESULTS = Site()
# Nothing of a stranger's page runs, loads or sends; styles in the page itself may be shown.
_HARMLESS = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'"


@RESULTS.page("/results")
async def list_results(visit: Visit) -> Page:
    policy_id = visit.arg("policy_id")
    found = await visit.opilio.insights.results(
        limit=50, cursor=visit.arg("cursor"), policy_id=uuid_of(policy_id) if policy_id else None
    )
    values = {"items": found.items, "next_cursor": found.next_cursor}
    return Page("results.html", visit.words.say("Results"), values, rows=found.items)


@RESULTS.page("/results/{id:str}/page", twins=False)
async def page_of_result(visit: Visit) -> Response[Any]:
    """The HTML as it was crawled, for the sandboxed frame of the job's page and for nothing else."""
    result = await visit.opilio.insights.result(visit.id(), visit.opilio.pages.get_page)
    if result.raw_html is None:
        raise NotFound("the page of this result was not kept")
    headers = {
        "content-security-policy": _HARMLESS,
        "x-frame-options": "SAMEORIGIN",
        "cache-control": "no-store",
        "referrer-policy": "no-referrer",
    }
    return Response(result.raw_html.encode(), media_type="text/html; charset=utf-8", headers=headers)
