"""Create a project: what the API takes, as a form, with what is wrong beside the field that it is in."""

import re
from typing import Any

import msgspec

from opilio.contracts.decoding import named
from opilio.contracts.projects import Project, ProjectInput
from opilio.errors import Conflict, Invalid, Refused
from opilio.web.dashboard.i18n import Locale
from opilio.web.dashboard.page import Page, PageRequest, Section, redirect

PROJECT_FORM = Section()
_TEXTS = ("project_id", "brand_name", "webhook_url", "time_zone")
_NUMBERS = ("limit_per_keyword", "time_range")
_LISTS = ("brand_keywords", "competitor_keywords")
_FIELDS = (*_TEXTS, *_NUMBERS, *_LISTS, "platforms")
_NAME = re.compile(r"\[(.+)\]")


@PROJECT_FORM.page("/projects/new", need="write", as_data=False)
async def new_project(request: PageRequest) -> Page:
    """Empty; or, to run a project again, with what the project has but for its id."""
    again = request.query("from")
    if again is None:
        return _page(request)
    project = await request.opilio.project_insights.project(again)
    return _page(request, again=project)


@PROJECT_FORM.action("/projects/new")
async def create_project(request: PageRequest) -> Any:
    try:
        project_id = await request.opilio.projects.create(_read(request), by=request.actor)
    except Refused as refusal:
        return _page(request, refusal)
    return redirect(
        f"/projects/{project_id}",
        request.locale.gettext("Project created. Its tasks are being sent to the crawlers."),
    )


def _page(request: PageRequest, refusal: Refused | None = None, again: Project | None = None) -> Page:
    settings = request.opilio.settings
    typed = {name: request.field(name) or "" for name in (*_TEXTS, *_NUMBERS, *_LISTS)}
    if again is not None:
        typed = _of_project(again)
    values = {
        "form": typed,
        "platforms": settings.platforms,
        "chosen": request.form.get("platforms", [])
        if request.form
        else again.platforms
        if again
        else settings.platforms,
        "usual_limit": settings.limit_per_keyword,
        "usual_zone": settings.time_zone,
        "faults": {} if refusal is None else _faults(request.locale, refusal),
    }
    status = 400 if refusal else 200
    return Page("project_form.html", request.locale.gettext("New project"), values, status=status)


def _of_project(project: Project) -> dict[str, str]:
    """A project as the fields of the form."""
    competitors = project.competitor_keywords
    if isinstance(competitors, dict):
        groups = ([f"[{name}]", *keywords] for name, keywords in competitors.items())
        competitors = [line for group in groups for line in group]
    return {
        "project_id": "",
        "brand_name": project.brand_name or "",
        "webhook_url": project.webhook_url or "",
        "time_zone": project.time_zone or "",
        "limit_per_keyword": str(project.limit_per_keyword),
        "time_range": "" if project.time_range is None else str(project.time_range),
        "brand_keywords": "\n".join(project.brand_keywords),
        "competitor_keywords": "\n".join(competitors),
    }


def _faults(locale: Locale, refusal: Refused) -> dict[str, str]:
    """The messages by field; under an empty name those that belong to no field."""
    if isinstance(refusal, Conflict):
        return {"project_id": locale.refusal(refusal)}
    if not isinstance(refusal, Invalid):
        return {"": locale.refusal(refusal)}
    field = re.split(r"[.\[]", refusal.field)[0]
    field = {"url": "webhook_url"}.get(field, field)
    if field not in _FIELDS:
        return {"": locale.refusal(refusal)}
    return {field: locale.fill(refusal.template, refusal.params)}


def _read(request: PageRequest) -> ProjectInput:
    """The form as the API would get it, so that both refuse the same."""
    body: dict[str, Any] = {name: request.field(name) for name in (*_TEXTS, *_NUMBERS) if request.field(name)}
    body["brand_keywords"] = _lines(request.field("brand_keywords"))
    body["competitor_keywords"] = _competitors(_lines(request.field("competitor_keywords")))
    body["platforms"] = request.form.get("platforms", [])
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
                "competitor_keywords", "start with a name in brackets; %(line)s has no group", line=line[:60]
            )
        else:
            found[name].append(line)
    return found
