"""Hosts and their limits."""

from typing import Any

from opilio.contracts.management import FullHost, Host, LimitsRequest
from opilio.crawl.politeness import Limits
from opilio.web.api.shared import ListQuery
from opilio.web.routes import Call, Registry

HOSTS = Registry()


@HOSTS.add(
    "GET", "/api/v1/hosts", "read", "List hosts by name", query=ListQuery, answer=list[Host], tag="hosts"
)
async def list_hosts(call: Call) -> Any:
    return await call.opilio.insights.hosts(limit=call.query.limit, cursor=call.query.cursor)


@HOSTS.add(
    "GET",
    "/api/v1/hosts/{host:str}",
    "read",
    "One host, and when it was cooling down",
    answer=FullHost,
    errors=("not_found",),
    tag="hosts",
)
async def get_host(call: Call) -> Any:
    return await call.opilio.insights.host(call.text("host").lower())


@HOSTS.add(
    "PUT",
    "/api/v1/hosts/{host:str}",
    "write",
    "Set the limits of a host; omitted ones use the default",
    body=LimitsRequest,
    answer=FullHost,
    tag="hosts",
)
async def set_host_limits(call: Call) -> Any:
    asked: LimitsRequest = call.body
    host = await call.opilio.hosts.set_limits(
        call.text("host"), Limits(asked.max_concurrent, asked.min_delay_seconds), call.actor
    )
    return await call.opilio.insights.host(host)
