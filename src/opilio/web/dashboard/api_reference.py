"""The API reference within the dashboard; calls that are tried there are made as the operator who is logged in."""

from itertools import groupby

from opilio.errors import NotFound
from opilio.web.dashboard.page import Page, PageRequest, Section
from opilio.web.operations import Operation, operations

API_REFERENCE = Section()


@API_REFERENCE.page("/reference")
async def api_reference(request: PageRequest) -> Page:
    """All operations by their subject."""
    wanted = (request.query("q") or "").lower()
    found = [operation for operation in operations().values() if _matches(operation, wanted)]
    found.sort(key=lambda operation: operation.tag)
    groups = [(tag, list(rows)) for tag, rows in groupby(found, key=lambda operation: operation.tag)]
    rows = [
        {"method": o.method, "path": o.path, "summary": o.summary, "needs": o.needs, "tag": o.tag}
        for o in found
    ]
    values = {"groups": groups, "total": len(found)}
    return Page("reference.html", request.locale.gettext("API reference"), values, rows=rows)


def _matches(operation: Operation, wanted: str) -> bool:
    text = f"{operation.method} {operation.path} {operation.summary} {operation.tag}".lower()
    return all(word in text for word in wanted.split())


@API_REFERENCE.page("/reference/{id:str}")
async def one_operation(request: PageRequest) -> Page:
    """One operation: what it takes and answers, a curl command, and a form to try it."""
    operation = operations().get(request.name())
    if operation is None:
        raise NotFound("the API has no operation %(name)s", name=request.name())
    values = {"operation": operation, "curl": operation.curl(request.server)}
    return Page("operation.html", operation.summary, values, data=operation)
