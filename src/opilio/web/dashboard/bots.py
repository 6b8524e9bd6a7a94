"""Bots: their activity and their tokens."""

from typing import Any

from opilio.errors import Invalid
from opilio.web.dashboard.forms import uuid_of
from opilio.web.dashboard.page import Page, PageRequest, Section, redirect

BOTS = Section()


@BOTS.page("/bots")
async def list_bots(request: PageRequest) -> Page:
    shown = request.shown_once()
    found = await request.opilio.insights.bots(limit=100, cursor=request.query("cursor"))
    names = [bot.bot_id for bot in found.items]
    hours = await request.opilio.figures.bot_hours(names)
    chosen = shown.get("bot_id") or request.query("tokens")
    tokens = await request.opilio.credentials.bot_tokens(chosen) if chosen and request.can("admin") else []
    values = {
        "items": found.items,
        "next_cursor": found.next_cursor,
        "hours": {bot: [row["done"] for row in rows] for bot, rows in hours.items()},
        "now": (await request.app.live.system_status()).at,
        "server": request.server,
        "chosen": chosen,
        "tokens": tokens,
        "token": None,
    }
    return Page("bots.html", request.locale.gettext("Bots"), values | shown, rows=found.items)


@BOTS.page("/bots/{id:str}")
async def one_bot(request: PageRequest) -> Page:
    """What a bot did and does: throughput, errors, the jobs that it holds."""
    bot = await request.opilio.insights.bot(request.name())
    insights = request.opilio.insights
    locked = (await insights.jobs(bot_id=bot.bot_id, status="locked", limit=50)).items
    ended = [
        job for job in (await insights.jobs(bot_id=bot.bot_id, limit=15)).items if job.status != "locked"
    ]
    errors = await request.opilio.activity.bot_errors(bot.bot_id)
    values = {
        "bot": bot,
        "locked": locked,
        "ended": ended,
        "errors": errors,
        "now": (await request.app.live.system_status()).at,
        "server": request.server,
    }
    data = {"bot": bot, "locked": locked, "errors": errors, "jobs": ended}
    return Page("bot.html", bot.bot_id, values, data=data, rows=ended, charts=True)


@BOTS.page("/bots/{id:str}/series")
async def bot_over_time(request: PageRequest) -> Page:
    """What a bot did hour by hour, for its chart."""
    return Page(None, "", rows=await request.opilio.activity.bot(request.name()))


@BOTS.action("/bots/tokens", need="admin")
async def new_token(request: PageRequest) -> Any:
    """The token is shown once, on the next page."""
    bot_id = request.field("bot_id")
    if bot_id is None:
        raise Invalid("bot_id", "give the bot a name")
    _, token = await request.opilio.credentials.new_bot_token(bot_id, by=request.actor)
    return redirect("/bots", show_once={"token": token, "bot_id": bot_id})


@BOTS.action("/bots/tokens/revoke", need="admin")
async def revoke_tokens(request: PageRequest) -> Any:
    bot_id, token = request.field("bot_id") or "", request.field("token_id")
    count = await request.opilio.credentials.revoke_bot_tokens(
        bot_id, uuid_of(token) if token else None, by=request.actor
    )
    return redirect("/bots", request.locale.ngettext("%(n)s token revoked.", "%(n)s tokens revoked.", count))
