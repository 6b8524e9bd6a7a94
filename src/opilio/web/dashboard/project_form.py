"""Create a project: what the API takes, as a form, with what is wrong beside the field that it is in."""

import re
from typing import Any

import msgspec

from opilio.contracts.projects import ProjectInput
from opilio.errors import Conflict, Invalid, Refused
from opilio.web.codec import named
from opilio.web.dashboard.page import Page, Site, Visit, go

PROJECT_FORM = Site()
_TEXTS = ("project_id", "brand_name", "webhook_url")
_NUMBERS = ("limit_per_keyword", "time_range")
_LISTS = ("brand_keywords", "competitor_keywords")
_FIELDS = (*_TEXTS, *_NUMBERS, *_LISTS, "platforms")
_NAME = re.compile(r"\[(.+)\]")


@PROJECT_FORM.page("/projects/new", need="write", twins=False)
async def new_project(visit: Visit) -> Page:
    return _page(visit)


@PROJECT_FORM.action("/projects/new")
async def create_project(visit: Visit) -> Any:
    try:
        project_id = await visit.opilio.projects.create(_read(visit), by=visit.actor)
    except Refused as refusal:
        return _page(visit, refusal)
    await visit.note("project.create", project_id)
    return go(f"/projects/{project_id}", visit.words.say("Created: its tasks go out to the crawlers."))


def _page(visit: Visit, refusal: Refused | None = None) -> Page:
    settings = visit.opilio.settings
    typed = {name: visit.said(name) or "" for name in (*_TEXTS, *_NUMBERS, *_LISTS)}
    values = {
        "form": typed,
        "platforms": settings.platforms,
        "chosen": visit.form.get("platforms", []) if visit.form else settings.platforms,
        "usual_limit": settings.limit_per_keyword,
        "faults": {} if refusal is None else _faults(refusal),
    }
    status = 400 if refusal else 200
    return Page("project_form.html", visit.words.say("New project"), values, status=status)


def _faults(refusal: Refused) -> dict[str, str]:
    """What is wrong, by field; under no name what belongs to none."""
    if isinstance(refusal, Conflict):
        return {"project_id": refusal.message}
    if not isinstance(refusal, Invalid):
        return {"": refusal.message}
    field = re.split(r"[.\[]", refusal.field)[0]
    field = {"url": "webhook_url"}.get(field, field)
    message = refusal.details[0]["message"]
    return {field: message} if field in _FIELDS else {"": refusal.message}


def _read(visit: Visit) -> ProjectInput:
    """The form as the API would get it, so that both refuse the same."""
    body: dict[str, Any] = {name: visit.said(name) for name in (*_TEXTS, *_NUMBERS) if visit.said(name)}
    body["brand_keywords"] = _lines(visit.said("brand_keywords"))
    body["competitor_keywords"] = _competitors(_lines(visit.said("competitor_keywords")))
    body["platforms"] = visit.form.get("platforms", [])
    try:
        return msgspec.convert(body, ProjectInput, strict=False)
    except msgspec.ValidationError as error:
        raise named(error) from None


def _lines(text: str | None) -> list[str]:
    return [line.strip() for line in (text or "").splitlines() if line.strip()]


def _competitors(lines: list[str]) -> list[str] | dict[str, list[str]]:
    """A plain list; or, where a line in brackets names who the next ones belong to, lists by name."""
    if not any(_NAME.fullmatch(line) for line in lines):
        return lines
    found: dict[str, list[str]] = {}
    name = ""
    for line in lines:
        if heading := _NAME.fullmatch(line):
            name = heading.group(1).strip()
            found.setdefault(name, [])
        elif not name:
            raise Invalid(
                "competitor_keywords", f"begin with a name in brackets: {line[:60]} belongs to nobody"
            )
        else:
            found[name].append(line)
    return found
