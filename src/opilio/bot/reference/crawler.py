"""Crawls one job: fetches or renders the page, then extracts values."""

import asyncio
import os
from dataclasses import replace
from http.cookiejar import CookieJar, DefaultCookiePolicy
from types import TracebackType
from typing import TYPE_CHECKING, Self

import httpx2

from opilio.bot.errors import CrawlError
from opilio.bot.extract import extract
from opilio.bot.extract.document import decoded
from opilio.bot.reference.fetch import Fetcher, NotModified, Page
from opilio.bot.reference.options import CrawlConfig, Options, parse_config
from opilio.bot.reference.robots import Robots
from opilio.bot.result import Result
from opilio.contracts.bot_api import PulledJob
from opilio.contracts.codes import ErrorCode
from opilio.net.guarded_connect import GuardedTransport

if TYPE_CHECKING:
    from opilio.bot.reference.browser import Browser


class ReferenceCrawler:
    """Crawls any job; open it with `async with`, its connections and its browser close at the end."""

    def __init__(self, options: Options | None = None) -> None:
        self._options = options or Options()
        self._client = httpx2.AsyncClient(
            transport=GuardedTransport(self._options.allow),
            headers={"user-agent": self._options.user_agent},
            timeout=httpx2.Timeout(self._options.timeout_seconds),
            # No cookies here: the fetcher keeps them for one fetch, so that jobs do not share them.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            trust_env=False,
        )
        self._robots = Robots(self._client)
        self._fetcher = Fetcher(self._client)
        self._browser = _browser(self._options, self._robots) if self._options.browser else None
        # Extraction is CPU-bound: more at once than cores only costs memory.
        self._readers = asyncio.Semaphore(os.cpu_count() or 1)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._browser is not None:
            await self._browser.close()
        await self._client.aclose()

    async def crawl(self, job: PulledJob) -> Result:
        config = parse_config(job.crawl_config, self._options)
        try:
            page = await self._page(job, config)
        except NotModified:
            return Result(not_modified=True)
        async with self._readers:
            return await asyncio.to_thread(_read, page, job.rule_set, config.keep_html)

    async def _page(self, job: PulledJob, config: CrawlConfig) -> Page:
        if job.queue != "js" and not config.js_required:
            return await self._fetcher.fetch(job.url, config, self._robots.check, job.validators)
        if self._browser is None:
            raise CrawlError(
                ErrorCode.UNKNOWN_ERROR,
                "this page needs JavaScript, and this bot has no browser (--capabilities js)",
            )
        return await self._browser.render(job.url, config)


def _read(page: Page, rule_set: object, keep_html: bool) -> Result:
    result = extract(page.body, page.url, page.content_type, rule_set)
    html = decoded(page.body, page.content_type) if keep_html else None
    return replace(result, raw_html=html, validators=page.validators)


def _browser(options: Options, robots: Robots) -> "Browser":
    from opilio.bot.reference.browser import Browser  # noqa: PLC0415  Playwright is optional

    return Browser(options, robots.check)
