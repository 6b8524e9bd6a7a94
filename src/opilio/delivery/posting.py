"""Sends one webhook and tells what came back."""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import TracebackType
from typing import Self

import httpx2

from opilio import __version__
from opilio.delivery.health import Answer
from opilio.delivery.retry import parse_retry_after
from opilio.guarded_http import GuardedTransport
from opilio.netguard import AllowList

KEPT_OF_ANSWER = 1024
_READ_AT_MOST = 64 * 1024  # more than that is not worth keeping the connection for
_BASE = {
    "content-type": "application/json; charset=utf-8",
    "user-agent": f"Opilio/{__version__}",
    "accept": "*/*",
}


class Post:
    """An HTTP client for receivers: no redirects, no proxies, permitted addresses only, in bounded time."""

    def __init__(self, allow: AllowList, *, limit: timedelta = timedelta(seconds=15)) -> None:
        self._limit = limit.total_seconds()
        self._hosts = _Transports(allow)
        # The whole exchange has its limit; connecting gets less, so that a host that is down is known sooner.
        self._timeouts = {"connect": min(5.0, self._limit), "read": None, "write": None, "pool": None}

    async def send(self, url: str, body: bytes, headers: dict[str, str]) -> Answer:
        began = time.perf_counter()
        try:
            async with asyncio.timeout(self._limit):
                return await self._exchange(url, body, headers, began)
        except TimeoutError:
            return Answer(None, _since(began), error=f"no answer within {self._limit:g} seconds")
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            return Answer(None, _since(began), error=str(error) or type(error).__name__)

    async def _exchange(self, url: str, body: bytes, headers: dict[str, str], began: float) -> Answer:
        request = httpx2.Request(
            "POST",
            _parsed(url),
            headers={**_BASE, **headers},
            content=body,
            extensions={"timeout": self._timeouts},
        )
        async with self._hosts.transport(request.url) as transport:
            response = await transport.handle_async_request(request)
            try:
                head = await _read(response)
            finally:
                await response.aclose()
        return Answer(
            response.status_code,
            _since(began),
            head=head.decode(errors="replace").replace("\x00", "\ufffd"),
            retry_after=parse_retry_after(response.headers.get("retry-after"), datetime.now(UTC)),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._hosts.close()


class _Transports:
    """A pool of connections for each host: a pool looks at all its connections for every request, and one host
    must not use up the connections of another. The least recently used are closed.

    A transport follows no redirects and keeps no cookies; a client would have to be told not to.
    """

    MOST = 128

    def __init__(self, allow: AllowList) -> None:
        self._allow = allow
        self._ssl = httpx2.create_ssl_context(trust_env=False)
        self._of: OrderedDict[tuple[str, str, int | None], GuardedTransport] = OrderedDict()
        self._in_use: Counter[tuple[str, str, int | None]] = Counter()

    @asynccontextmanager
    async def transport(self, url: httpx2.URL) -> AsyncIterator[GuardedTransport]:
        host = (url.scheme, url.host, url.port)
        transport = self._of.pop(host, None) or GuardedTransport(
            self._allow, ssl_context=self._ssl, connections=128, keepalive=16
        )
        self._of[host] = transport
        self._in_use[host] += 1
        try:
            yield transport
        finally:
            self._in_use[host] -= 1
            if not self._in_use[host]:
                del self._in_use[host]
            await self._close_unused(self.MOST)

    async def _close_unused(self, kept: int) -> None:
        while len(self._of) > kept:
            oldest = next((host for host in self._of if host not in self._in_use), None)
            if oldest is None:
                return
            await self._of.pop(oldest).aclose()

    async def close(self) -> None:
        await self._close_unused(0)


async def _read(response: httpx2.Response) -> bytes:
    """The first kilobyte as it came; the rest is read only as far as it keeps the connection usable."""
    head, size = b"", 0
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    async for chunk in response.stream:
        size += len(chunk)
        head += chunk[: KEPT_OF_ANSWER - len(head)]
        if size > _READ_AT_MOST:
            break
    return head


def _since(began: float) -> float:
    return (time.perf_counter() - began) * 1000


@lru_cache(maxsize=20_000)
def _parsed(url: str) -> httpx2.URL:
    return httpx2.URL(url)
