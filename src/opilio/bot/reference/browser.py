"""Renders pages that need JavaScript: Playwright with an installed Chromium, through a proxy that checks addresses."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from playwright.async_api import Error, async_playwright
from playwright.async_api import Page as BrowserPage
from playwright.async_api import TimeoutError as StillBusy

from opilio.bot.error_codes import of_status
from opilio.bot.errors import CrawlError
from opilio.bot.reference.browser_proxy import BrowserProxy
from opilio.bot.reference.fetch import Check, Page, checked_url
from opilio.bot.reference.options import CrawlConfig, Options
from opilio.contracts.codes import ErrorCode

_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    # Chromium would bypass the proxy for loopback, and TCP with QUIC and WebRTC.
    "--proxy-bypass-list=<-loopback>",
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
]
_NOT_NEEDED = {"image", "media", "font"}
_REASONS = {
    # Our own `_decide` aborts what robots.txt forbids; Chromium aborts what is a download.
    "ERR_ABORTED": ErrorCode.CONTENT_UNAVAILABLE,
    "ERR_FAILED": ErrorCode.CONTENT_UNAVAILABLE,
    "ERR_TOO_MANY_REDIRECTS": ErrorCode.INVALID_RESPONSE,
    "TIMED_OUT": ErrorCode.TIMEOUT,
    "Timeout": ErrorCode.TIMEOUT,
}
# How long scripts may go on loading after the page has loaded.
_SETTLE_SECONDS = 5.0


class Browser:
    """One browser for all jobs, started with the first; each job gets its own context."""

    def __init__(self, options: Options, check: Check) -> None:
        self._options = options
        self._check = check
        self._proxy = BrowserProxy(options.allow)
        self._pages = asyncio.Semaphore(options.pages_at_once)
        self._starting = asyncio.Lock()
        self._stack = contextlib.AsyncExitStack()
        self._browser: Any = None

    async def close(self) -> None:
        await self._stack.aclose()

    async def render(self, url: str, config: CrawlConfig) -> Page:
        """The page after its scripts have run."""
        address = str(checked_url(url))
        await self._check(address)
        async with self._pages, asyncio.timeout(config.timeout_seconds), self._page(config) as page:
            return await self._visit(page, address, config)

    async def _visit(self, page: BrowserPage, url: str, config: CrawlConfig) -> Page:
        answers: list[Any] = []
        page.on("response", lambda answer: answers.append(answer) if _is_page_itself(page, answer) else None)
        try:
            response = await page.goto(url, wait_until="load", timeout=config.timeout_seconds * 1000)
        except Error as error:
            raise self._explained(url, answers, error) from error
        if response is None or not response.ok:
            raise self._refused(url, response)
        if config.wait_for:
            await page.wait_for_selector(
                config.wait_for, state="attached", timeout=config.timeout_seconds * 1000
            )
        else:
            await _settled(page)
        body = (await page.content()).encode("utf-8", "replace")
        if len(body) > config.max_bytes:
            raise CrawlError(ErrorCode.MEDIA_TOO_LARGE, f"the page has more than {config.max_bytes} bytes")
        return Page(page.url, body, "text/html; charset=utf-8")

    def _explained(self, url: str, answers: list[Any], error: Exception) -> Exception:
        """Why the page did not load: refused by our proxy, the host's answer, or the browser's error."""
        if (reason := self._proxy.reason(url)) is not None:
            return reason
        if answers and answers[-1].status >= 400:
            # Chromium reports an error status without a body as its own failure.
            return self._refused(url, answers[-1])
        text = str(error).splitlines()[0]
        for words, code in _REASONS.items():
            if words in text:
                return CrawlError(code, text)
        return CrawlError(ErrorCode.NETWORK_ERROR, text)

    def _refused(self, url: str, response: Any) -> Exception:
        if response is None:
            return CrawlError(ErrorCode.INVALID_RESPONSE, "the browser got no answer")
        for address in (response.url, url):
            if (reason := self._proxy.reason(address)) is not None:
                return reason
        failed = of_status(response.status, response.headers)
        return CrawlError(failed.code, failed.message, retry_after=failed.retry_after)

    @contextlib.asynccontextmanager
    async def _page(self, config: CrawlConfig) -> AsyncIterator[BrowserPage]:
        browser = await self._started()
        headers = {name: value for name, value in config.headers.items() if name != "user-agent"}
        context = await browser.new_context(
            user_agent=config.headers.get("user-agent", self._options.user_agent),
            extra_http_headers=headers,
            accept_downloads=False,
            service_workers="block",
        )
        try:
            page = await context.new_page()
            await page.route("**/*", self._decide)
            yield page
        finally:
            await context.close()

    async def _decide(self, route: Any) -> None:
        """Blocks images, media and fonts, and navigation that robots.txt forbids."""
        request = route.request
        if request.resource_type in _NOT_NEEDED or not request.url.startswith(("http://", "https://")):
            await route.abort()
            return
        if request.is_navigation_request():
            try:
                await self._check(request.url)
            except Exception:  # noqa: BLE001  whatever keeps the check from a yes is a no
                await route.abort()
                return
        await route.continue_()

    async def _started(self) -> Any:
        async with self._starting:
            if self._browser is None or not self._browser.is_connected():
                self._browser = await self._start()
            return self._browser

    async def _start(self) -> Any:
        """Starts the proxy, the driver and the browser; closes what a crashed browser left."""
        await self._stack.aclose()
        address = await self._stack.enter_async_context(self._proxy.serving())
        playwright = await self._stack.enter_async_context(async_playwright())
        browser = await playwright.chromium.launch(
            executable_path=self._options.browser, args=_FLAGS, proxy={"server": address}
        )
        self._stack.push_async_callback(browser.close)
        return browser


async def _settled(page: BrowserPage) -> None:
    """Waits until the network is idle, for a few seconds at most."""
    with contextlib.suppress(StillBusy):
        await page.wait_for_load_state("networkidle", timeout=_SETTLE_SECONDS * 1000)


def _is_page_itself(page: BrowserPage, answer: Any) -> bool:
    return bool(answer.request.is_navigation_request() and answer.frame == page.main_frame)
