"""Saved views: a filter with a name, for everybody."""

from typing import Any

from opilio.errors import Invalid, NotFound
from opilio.web.dashboard.page import Site, Visit, go

VIEWS = Site()
_PAGES = ("policies", "jobs")


@VIEWS.action("/views")
async def save_view(visit: Visit) -> Any:
    page, name, query = visit.said("page") or "", visit.said("name") or "", visit.said("query") or ""
    if page not in _PAGES:
        raise Invalid("page", f"must be one of {', '.join(_PAGES)}")
    if not 1 <= len(name) <= 80 or not name.isprintable():
        raise Invalid("name", "must be 1 to 80 printable characters")
    await visit.opilio.views.save(page, name, query, visit.actor)
    return go(f"/{page}?{query}", visit.words.say("Saved as %(name)s.", name=name))


@VIEWS.action("/views/{id:str}/delete")
async def delete_view(visit: Visit) -> Any:
    if not await visit.opilio.views.delete(visit.id()):
        raise NotFound("there is no such view")
    return go(visit.back("/"), visit.words.say("The view is gone."))
