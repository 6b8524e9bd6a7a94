"""Bots: their activity and their tokens."""

from collections.abc import Callable
from typing import Any

from opilio.contracts.management import BotInfo
from opilio.errors import Invalid
from opilio.web.dashboard.forms import uuid_of
from opilio.web.dashboard.page import Found, Page, PageRequest, Section, redirect

BOTS = Section()


@BOTS.page("/bots")
async def list_bots(request: PageRequest) -> Page:
    shown = request.shown_once()
    found = await _found(request)
    names = [bot.bot_id for bot in found.items]
    hours = await request.opilio.figures.bot_hours(names)
    chosen = shown.get("bot_id") or request.query("tokens")
    tokens = await request.opilio.credentials.bot_tokens(chosen) if chosen and request.can("admin") else []
    values = {
        "items": found.items,
        "next_cursor": found.next_cursor,
        "hours": {bot: [row["done"] for row in rows] for bot, rows in hours.items()},
        "now": await request.app.live.now(),
        "server": request.server,
        "chosen": chosen,
        "tokens": tokens,
        "token": None,
    }
    return Page("bots.html", request.locale.gettext("Bots"), values | shown, rows=found.items)


async def _found(request: PageRequest) -> Found:
    """By name behind a cursor; in another order the first thousand bots."""
    sort, reverse = request.sort(("bot", *_SORTS))
    if (sort, reverse) == ("bot", False):
        page = await request.opilio.insights.bots(limit=100, cursor=request.query("cursor"))
        return Found(page.items, page.next_cursor)
    bots = (await request.opilio.insights.bots(limit=_MOST_SORTED)).items
    if sort == "bot":
        return Found(sorted(bots, key=lambda bot: bot.bot_id, reverse=True))
    key = _SORTS[sort]
    known = [bot for bot in bots if key(bot) is not None]
    unknown = [bot for bot in bots if key(bot) is None]
    return Found(sorted(known, key=key, reverse=not reverse) + unknown)


def _success(bot: BotInfo) -> float | None:
    ended = bot.done_24h + bot.failed_24h
    return bot.done_24h / ended if ended else None


_MOST_SORTED = 1000
_SORTS: dict[str, Callable[[BotInfo], Any]] = {
    "running": lambda bot: bot.locked,
    "done": lambda bot: bot.done_24h,
    "success": _success,
    "duration": lambda bot: bot.mean_duration_seconds,
    "pulls": lambda bot: bot.pulls_24h,
    "late": lambda bot: bot.late_24h,
    "seen": lambda bot: bot.last_seen_at,
}


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
        "now": await request.app.live.now(),
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
