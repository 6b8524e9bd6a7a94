"""Bots: what they do, and the tokens that let them in."""

from typing import Any

from opilio.errors import Invalid
from opilio.web.dashboard.page import Page, Site, Visit, go, uuid_of

BOTS = Site()


@BOTS.page("/bots")
async def list_bots(visit: Visit) -> Page:
    return await _page(visit)


async def _page(visit: Visit, **shown: Any) -> Page:
    found = await visit.opilio.insights.bots(limit=100, cursor=visit.arg("cursor"))
    names = [bot.bot_id for bot in found.items]
    hours = await visit.opilio.figures.bot_hours(names)
    chosen = shown.get("bot_id") or visit.arg("tokens")
    tokens = await visit.opilio.credentials.bot_tokens(chosen) if chosen and visit.can("admin") else []
    values = {
        "items": found.items,
        "next_cursor": found.next_cursor,
        "hours": {bot: [row["done"] for row in rows] for bot, rows in hours.items()},
        "now": (await visit.app.live.pulse()).at,
        "server": visit.opilio.settings.public_url or str(visit.request.base_url).rstrip("/"),
        "chosen": chosen,
        "tokens": tokens,
        "token": None,
    }
    return Page("bots.html", visit.words.say("Bots"), values | shown, rows=found.items)


@BOTS.action("/bots/tokens", need="admin")
async def new_token(visit: Visit) -> Page:
    """The token is in this one answer and nowhere else; the page cannot be loaded again to see it."""
    bot_id = visit.said("bot_id")
    if bot_id is None:
        raise Invalid("bot_id", "give the bot a name")
    _, token = await visit.opilio.credentials.new_bot_token(bot_id, by=visit.actor)
    return await _page(visit, token=token, bot_id=bot_id)


@BOTS.action("/bots/tokens/revoke", need="admin")
async def revoke_tokens(visit: Visit) -> Any:
    bot_id, token = visit.said("bot_id") or "", visit.said("token_id")
    count = await visit.opilio.credentials.revoke_bot_tokens(
        bot_id, uuid_of(token) if token else None, by=visit.actor
    )
    return go("/bots", visit.words.counted("%(n)s token revoked.", "%(n)s tokens revoked.", count))
