"""Settings: operators, API keys and the audit log."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

from opilio import audit as audit_log
from opilio.access.identity import SCOPE_OF_ROLE, SCOPES
from opilio.web.dashboard.page import Page, PageRequest, Section, redirect

SETTINGS = Section()
_SIZE = 50


@SETTINGS.page("/settings", need="admin")
async def settings(request: PageRequest) -> Page:
    operators = await request.opilio.operators.list()
    values = {
        "operators": operators,
        "keys": await request.opilio.credentials.keys(),
        "roles": list(SCOPE_OF_ROLE),
        "scopes": list(SCOPES),
        "me": request.actor.partition(":")[2],
        "server": request.server,
        "link": None,
        "key": None,
    } | request.shown_once()
    return Page("settings.html", request.locale.gettext("Settings"), values, rows=operators)


@SETTINGS.page("/settings/audit", need="admin")
async def audit(request: PageRequest) -> Page:
    text = request.query("before") or ""
    before = int(text) if text.isascii() and text.isdigit() and len(text) < 18 else None
    rows = await audit_log.entries(
        request.opilio.database,
        before,
        _SIZE + 1,
        q=request.query("q"),
        since=request.moment("since"),
        until=request.moment("until", is_end=True),
    )
    values = {
        "rows": rows[:_SIZE],
        "older": rows[_SIZE - 1]["audit_id"] if len(rows) > _SIZE else None,
        "names": await _names(request, rows),
    }
    return Page("audit.html", request.locale.gettext("Audit log"), values, rows=rows[:_SIZE])


async def _names(request: PageRequest, rows: Sequence[Any]) -> dict[str, tuple[str, str]]:
    """What people call the policies and jobs of the entries, and where they are."""
    found: dict[str, tuple[str, str]] = {}
    for kind in ("policies", "jobs"):
        prefix = {"policies": "policy.", "jobs": "job."}[kind]
        ids = []
        for row in rows:
            if row["action"].startswith(prefix):
                with suppress(ValueError):
                    ids.append(UUID(row["subject"]))
        names = await request.opilio.figures.names(kind, ids) if ids else {}
        found |= {str(thing): (name, f"/{kind}/{thing}") for thing, name in names.items()}
    return found


@SETTINGS.action("/settings/operators", need="admin")
async def invite(request: PageRequest) -> Any:
    """A new operator, or a lost password: a link that works once, shown once."""
    name, role = request.field("name") or "", request.field("role") or "viewer"
    secret = await request.opilio.operators.invite(name, role, by=request.actor)
    return redirect("/settings", show_once={"link": secret, "invited": name})


@SETTINGS.action("/settings/operators/change", need="admin")
async def change_operator(request: PageRequest) -> Any:
    name, role, disabled = request.field("name") or "", request.field("role"), request.field("disabled")
    await request.opilio.operators.change(
        name, role=role, disabled=None if disabled is None else disabled == "yes", by=request.actor
    )
    return redirect("/settings", request.locale.gettext("Saved."))


@SETTINGS.action("/settings/keys", need="admin")
async def new_key(request: PageRequest) -> Any:
    """The key is shown once, on the next page."""
    name, scope = request.field("name") or "", request.field("scope") or "read"
    _, secret = await request.opilio.credentials.new_key(name, scope, by=request.actor)
    return redirect("/settings", show_once={"key": secret, "key_name": name})


@SETTINGS.action("/settings/keys/revoke", need="admin")
async def revoke_key(request: PageRequest) -> Any:
    key = request.field("key_id") or ""
    await request.opilio.credentials.revoke_key(key, by=request.actor)
    return redirect("/settings", request.locale.gettext("Key revoked."))
