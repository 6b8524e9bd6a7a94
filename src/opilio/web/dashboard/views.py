"""Saved views: a filter with a name, for everybody."""

from typing import Any

from opilio.errors import Invalid, NotFound
from opilio.web.dashboard.page import PageRequest, Section, redirect

VIEWS = Section()
_PAGES = ("policies", "jobs")


@VIEWS.action("/views")
async def save_view(request: PageRequest) -> Any:
    page, name, query = request.field("page") or "", request.field("name") or "", request.field("query") or ""
    if page not in _PAGES:
        raise Invalid("page", "must be one of %(names)s", names=", ".join(_PAGES))
    if not 1 <= len(name) <= 80 or not name.isprintable():
        raise Invalid("name", "must be 1 to 80 printable characters")
    await request.opilio.views.save(page, name, query, request.actor)
    return redirect(f"/{page}?{query}", request.locale.gettext("Saved as %(name)s.", name=name))


@VIEWS.action("/views/{id:str}/delete")
async def delete_view(request: PageRequest) -> Any:
    if not await request.opilio.views.delete(request.id()):
        raise NotFound("view not found")
    return redirect(request.return_path("/"), request.locale.gettext("View deleted."))
