"""Builds the reference bot."""

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

from opilio.bot.bot import Bot
from opilio.bot.job_report import JobReport
from opilio.bot.reference.crawler import ReferenceCrawler
from opilio.bot.reference.find_chromium import required_browser
from opilio.bot.reference.options import Options
from opilio.contracts.bot_api import Queue


@contextlib.asynccontextmanager
async def reference_bot(
    server: str,
    token: str,
    *,
    bot_id: str | None = None,
    capabilities: Sequence[Queue] = ("http",),
    domains: Sequence[str] = (),
    concurrency: int = 10,
    options: Options | None = None,
    observe: Callable[[JobReport], None] | None = None,
) -> AsyncIterator[Bot]:
    """A bot ready to `serve`, for all domains or those named; with the capability `js` it brings a browser."""
    options = options or Options()
    if "js" in capabilities:
        options = replace(options, browser=required_browser(options.browser))
    bot = Bot(
        server,
        token,
        bot_id=bot_id,
        capabilities=capabilities,
        concurrency=concurrency,
        observe=observe,
    )
    async with ReferenceCrawler(options) as crawler:
        for domain in domains or (None,):
            bot.handler(domain=domain)(crawler.crawl)
        yield bot
