"""Results: what crawls found."""

from typing import Annotated, Any

from msgspec import Meta

from opilio.contracts.management import FullResult, Result
from opilio.crawl.url import normalise
from opilio.net.allowed_addresses import AllowList
from opilio.web.api.shared import LONGEST_TEXT, ListQuery, uuid_of
from opilio.web.routes import Call, Registry

RESULTS = Registry()


class ResultQuery(ListQuery, kw_only=True, forbid_unknown_fields=True):
    url: Annotated[str, Meta(max_length=LONGEST_TEXT)] | None = None
    policy_id: Annotated[str, Meta(max_length=36)] | None = None


@RESULTS.add(
    "GET",
    "/api/v1/results",
    "read",
    "List results, newest first",
    query=ResultQuery,
    answer=list[Result],
    tag="results",
)
async def list_results(call: Call) -> Any:
    q: ResultQuery = call.query
    # A result may be of a time when its address was allowed: reading refuses none.
    url = normalise(q.url, AllowList(everything=True)).url if q.url is not None else None
    policy_id = uuid_of("policy_id", q.policy_id)
    return await call.opilio.insights.results(limit=q.limit, cursor=q.cursor, url=url, policy_id=policy_id)


@RESULTS.add(
    "GET",
    "/api/v1/results/{id:str}",
    "read",
    "One result with its page",
    answer=FullResult,
    errors=("not_found",),
    tag="results",
)
async def get_result(call: Call) -> Any:
    return await call.opilio.insights.result(call.uuid(), call.opilio.pages.get_page)
