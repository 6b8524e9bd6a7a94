"""Results: what crawls found, and the crawled page in a sandbox."""

from typing import Any

from litestar import Response

from opilio.errors import NotFound
from opilio.insights.sorted_lists import result_fields
from opilio.web.dashboard.forms import uuid_of
from opilio.web.dashboard.page import Found, Page, PageRequest, Section

RESULTS = Section()
_SIZE = 50
_SORTS = ("newest", "price", "duration")
# Nothing of a crawled page may run, load or send; its inline styles may apply.
_HARMLESS = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'"


@RESULTS.page("/results")
async def list_results(request: PageRequest) -> Page:
    policy_id = request.query("policy_id")
    wanted: dict[str, Any] = {
        "policy_id": uuid_of(policy_id) if policy_id else None,
        "like": await request.opilio.figures.policies_like(request.query("q")),
        "currency": (request.query("currency") or "").upper() or None,
        "in_stock": request.flag("stock"),
        "since": request.moment("since"),
        "until": request.moment("until", is_end=True),
    }
    found = await _found(request, wanted)
    lists = request.opilio.sorted_lists
    values = {
        "items": found.items,
        "next_cursor": found.next_cursor,
        "number": request.page_number(),
        "more": found.more,
        "total": await found.total(request, lambda: lists.count_results(result_fields(**wanted))),
    }
    return Page("results.html", request.locale.gettext("Results"), values, rows=found.items)


async def _found(request: PageRequest, wanted: dict[str, Any]) -> Found:
    """The newest by a cursor; another order by page number, up to a bound."""
    sort, reverse = request.sort(_SORTS)
    if (sort, reverse) == ("newest", False):
        page = await request.opilio.insights.results(limit=_SIZE, cursor=request.query("cursor"), **wanted)
        return Found(page.items, page.next_cursor)
    lists, number = request.opilio.sorted_lists, request.page_number()
    fields = result_fields(**wanted)
    rows = await lists.results(fields, sort=sort, reverse=reverse, page=number, size=_SIZE)
    return Found(rows[:_SIZE], more=len(rows) > _SIZE)


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
