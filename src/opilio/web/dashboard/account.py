"""The operator's own account: password, sessions, language, theme and time zone."""

from typing import Any

from opilio.web.dashboard.page import Page, PageRequest, Section, redirect
from opilio.web.dashboard.render import time_zones
from opilio.web.login import COOKIE

ACCOUNT = Section()


@ACCOUNT.page("/account")
async def account(request: PageRequest) -> Page:
    sessions = await request.opilio.operators.sessions(request.http.cookies[COOKIE])
    values = {"name": request.actor.partition(":")[2], "sessions": sessions, "zones": time_zones()}
    return Page("account.html", request.locale.gettext("Account"), values, rows=sessions)


@ACCOUNT.action("/account/sessions", need="read")
async def end_other_sessions(request: PageRequest) -> Any:
    ended = await request.opilio.operators.log_out_others(request.http.cookies[COOKIE])
    message = request.locale.ngettext("%(n)s session ended.", "%(n)s sessions ended.", ended)
    return redirect("/account", message)
