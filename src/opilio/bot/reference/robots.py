"""robots.txt (RFC 9309): fetched once per origin and hour, checked for every request."""

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx2
from protego import Protego

from opilio.bot.errors import CrawlError
from opilio.bot.reference.fetch import read_limited
from opilio.bot.reference.options import AGENT
from opilio.contracts.codes import ErrorCode

_KEPT_SECONDS = 3600.0
# After a failure robots.txt is fetched again sooner.
_KEPT_AFTER_FAILURE = 60.0
_MOST_ORIGINS = 10_000
_MOST_BYTES = 512 * 1024
_MOST_REDIRECTS = 5
_MOST_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class _Kept:
    rules: asyncio.Task[Protego | None]
    until: float


class Robots:
    """Checks URLs against robots.txt; the rules are cached."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    async def check(self, url: str) -> None:
        """Raises a `CrawlError` if robots.txt forbids the URL."""
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}".lower()
        rules = await self._rules(origin)
        if rules is not None and not rules.can_fetch(url, AGENT):
            raise CrawlError(ErrorCode.CONTENT_UNAVAILABLE, f"robots.txt of {origin} forbids this URL")

    async def _rules(self, origin: str) -> Protego | None:
        kept = self._kept.get(origin)
        if kept is None or time.monotonic() >= kept.until or kept.rules.cancelled():
            kept = _Kept(asyncio.create_task(self._fetched(origin)), time.monotonic() + _KEPT_SECONDS)
            # Everybody who waited may have given up: the error must not be logged as unhandled.
            kept.rules.add_done_callback(lambda task: task.cancelled() or task.exception())
            self._kept[origin] = kept
            if len(self._kept) > _MOST_ORIGINS:
                self._kept.popitem(last=False)
        try:
            # Shielded: a job that gives up must not cancel the fetch for the others.
            return await asyncio.shield(kept.rules)
        except Exception:
            self._kept[origin] = _Kept(kept.rules, min(kept.until, time.monotonic() + _KEPT_AFTER_FAILURE))
            raise

    async def _fetched(self, origin: str) -> Protego | None:
        async with asyncio.timeout(_MOST_SECONDS):
            return await self._fetch(origin)

    async def _fetch(self, origin: str) -> Protego | None:
        """The rules; None if everything is allowed. Errors of the server forbid crawling for now."""
        address = httpx2.URL(f"{origin}/robots.txt")
        for _ in range(_MOST_REDIRECTS + 1):
            async with self._client.stream("GET", address, follow_redirects=False) as response:
                if response.is_redirect and "location" in response.headers:
                    address = address.join(response.headers["location"])
                    continue
                if response.status_code >= 500 or response.status_code == 429:
                    raise ConnectionError(f"robots.txt of {origin} answered {response.status_code}")
                if not response.is_success:
                    return None
                return Protego.parse(await _text(response))
        return None


async def _text(response: httpx2.Response) -> str:
    try:
        body = await read_limited(response, _MOST_BYTES)
    except CrawlError:
        # Larger than the 500 KiB that RFC 9309 asks crawlers to read: ignored.
        return ""
    return body.decode("utf-8", "replace")
