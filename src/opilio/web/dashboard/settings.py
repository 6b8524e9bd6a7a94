"""Settings: who may do what, the keys of programs, and the log of who did what."""

from typing import Any

from opilio import audit as audit_log
from opilio.access.identity import SCOPE_OF_ROLE, SCOPES
from opilio.web.dashboard.page import Page, Site, Visit, go

SETTINGS = Site()
_SIZE = 50


@SETTINGS.page("/settings", need="admin")
async def settings(visit: Visit) -> Page:
    return await _page(visit)


async def _page(visit: Visit, **shown: Any) -> Page:
    operators = await visit.opilio.operators.list()
    values = {
        "operators": operators,
        "keys": await visit.opilio.credentials.keys(),
        "roles": list(SCOPE_OF_ROLE),
        "scopes": list(SCOPES),
        "me": visit.actor.partition(":")[2],
        "server": visit.opilio.settings.public_url or str(visit.request.base_url).rstrip("/"),
        "link": None,
        "key": None,
    }
    return Page("settings.html", visit.words.say("Settings"), values | shown, rows=operators)


@SETTINGS.page("/settings/audit", need="admin")
async def audit(visit: Visit) -> Page:
    text = visit.arg("before") or ""
    before = int(text) if text.isdigit() and len(text) < 18 else None
    rows = await audit_log.entries(visit.opilio.database, before, _SIZE + 1)
    values = {"rows": rows[:_SIZE], "older": rows[_SIZE - 1]["audit_id"] if len(rows) > _SIZE else None}
    return Page("audit.html", visit.words.say("Who did what"), values, rows=rows[:_SIZE])


@SETTINGS.action("/settings/operators", need="admin")
async def invite(visit: Visit) -> Page:
    """A new operator, or a lost password: a link that works once, shown in this one answer."""
    name, role = visit.said("name") or "", visit.said("role") or "viewer"
    secret = await visit.opilio.operators.invite(name, role, by=visit.actor)
    return await _page(visit, link=secret, invited=name)


@SETTINGS.action("/settings/operators/change", need="admin")
async def change_operator(visit: Visit) -> Any:
    name, role, disabled = visit.said("name") or "", visit.said("role"), visit.said("disabled")
    await visit.opilio.operators.change(
        name, role=role, disabled=None if disabled is None else disabled == "yes", by=visit.actor
    )
    return go("/settings", visit.words.say("Saved."))


@SETTINGS.action("/settings/keys", need="admin")
async def new_key(visit: Visit) -> Page:
    """The key is in this one answer and nowhere else."""
    name, scope = visit.said("name") or "", visit.said("scope") or "read"
    _, secret = await visit.opilio.credentials.new_key(name, scope, by=visit.actor)
    return await _page(visit, key=secret, key_name=name)


@SETTINGS.action("/settings/keys/revoke", need="admin")
async def revoke_key(visit: Visit) -> Any:
    key = visit.said("key_id") or ""
    await visit.opilio.credentials.revoke_key(key, by=visit.actor)
    return go("/settings", visit.words.say("The key is revoked."))
