"""Dry runs: keywords searched on every platform without a project, with what was found."""

from typing import Any

import msgspec

from opilio.contracts.decoding import named
from opilio.contracts.projects import DryRunInput
from opilio.errors import Refused
from opilio.web.dashboard.page import Page, PageRequest, Section, redirect

DRY_RUNS = Section()


@DRY_RUNS.page("/dry-runs/new", need="write", as_data=False)
async def new_dry_run(request: PageRequest) -> Page:
    return _form(request)


@DRY_RUNS.action("/dry-runs/new")
async def start_dry_run(request: PageRequest) -> Any:
    keywords = [line.strip() for line in (request.field("keywords") or "").splitlines() if line.strip()]
    limit = request.field("limit") or "10"
    try:
        wanted = msgspec.convert(
            {"keywords": keywords, "limit": int(limit) if limit.isdecimal() else limit}, DryRunInput
        )
    except msgspec.ValidationError as error:
        return _form(request, named(error))
    job_id = await request.opilio.projects.dry_run(wanted.keywords, limit=wanted.limit, by=request.actor)
    return redirect(f"/dry-runs/{job_id}")


@DRY_RUNS.page("/dry-runs/{id:str}")
async def one_dry_run(request: PageRequest) -> Page:
    found = await request.opilio.project_insights.dry_run(request.name())
    return Page(
        "dry_run.html",
        request.locale.gettext("Dry run: %(keywords)s", keywords=", ".join(found.keywords)),
        {"found": found},
        data={"dry_run": found},
        rows=found.items,
    )


def _form(request: PageRequest, refusal: Refused | None = None) -> Page:
    values = {
        "keywords": request.field("keywords") or "" if request.form else "",
        "limit": request.field("limit") or "10" if request.form else "10",
        "fault": refusal.message if refusal else None,
    }
    return Page(
        "dry_run_form.html", request.locale.gettext("Dry run"), values, status=400 if refusal else 200
    )
