"""Sends one webhook and tells what came back."""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import TracebackType
from typing import NamedTuple, Self

import httpcore2
import httpx2

from opilio import __version__
from opilio.delivery.health import Answer
from opilio.delivery.retry import parse_retry_after
from opilio.guarded_http import guarded_pool
from opilio.netguard import AllowList

KEPT_OF_ANSWER = 1024
_READ_AT_MOST = 64 * 1024  # more than that is not worth keeping the connection for
_BASE = [
    (b"content-type", b"application/json; charset=utf-8"),
    (b"user-agent", f"Opilio/{__version__}".encode()),
    (b"accept", b"*/*"),
]


_FAILURES = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.TimeoutException,
    httpcore2.UnsupportedProtocol,
)
_Host = tuple[str, str, int | None]


class _Target(NamedTuple):
    """An address in the parts that a request is made of."""

    url: httpcore2.URL
    authority: bytes
    host: _Host


class Post:
    """An HTTP client for receivers: no redirects, no proxies, permitted addresses only, in bounded time.

    It speaks to httpcore itself: the models of a full client took two fifths of the time of a sending.
    """

    def __init__(self, allow: AllowList, *, limit: timedelta = timedelta(seconds=15)) -> None:
        self._limit = limit.total_seconds()
        self._pools = _Pools(allow)
        # The whole exchange has its limit; connecting gets less, so that a host that is down is known sooner.
        self._timeouts = {"connect": min(5.0, self._limit), "read": None, "write": None, "pool": None}

    async def send(self, url: str, body: bytes, headers: dict[str, str]) -> Answer:
        began = time.perf_counter()
        try:
            async with asyncio.timeout(self._limit):
                return await self._exchange(url, body, headers, began)
        except TimeoutError:
            return Answer(None, _since(began), error=f"no answer within {self._limit:g} seconds")
        except (*_FAILURES, httpx2.InvalidURL, OSError, ValueError) as error:
            return Answer(None, _since(began), error=str(error) or type(error).__name__)

    async def _exchange(self, url: str, body: bytes, headers: dict[str, str], began: float) -> Answer:
        target = _parsed(url)
        request = httpcore2.Request(
            b"POST",
            target.url,
            headers=[
                (b"host", target.authority),
                *_BASE,
                (b"content-length", b"%d" % len(body)),
                *((name.encode("ascii"), value.encode("ascii")) for name, value in headers.items()),
            ],
            content=body,
            extensions={"timeout": self._timeouts},
        )
        async with self._pools.pool(target.host) as pool:
            response = await pool.handle_async_request(request)
            try:
                head = await _read(response)
            finally:
                await response.aclose()
        return Answer(
            response.status,
            _since(began),
            head=head.decode(errors="replace").replace("\x00", "\ufffd"),
            retry_after=parse_retry_after(_retry_after(response), datetime.now(UTC)),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._pools.close()


class _Pools:
    """A pool of connections for each host: a pool looks at all its connections for every request, and one host
    must not use up the connections of another. The least recently used are closed.
    """

    MOST = 128

    def __init__(self, allow: AllowList) -> None:
        self._allow = allow
        self._ssl = httpx2.create_ssl_context(trust_env=False)
        self._of: OrderedDict[_Host, httpcore2.AsyncConnectionPool] = OrderedDict()
        self._in_use: Counter[_Host] = Counter()

    @asynccontextmanager
    async def pool(self, host: _Host) -> AsyncIterator[httpcore2.AsyncConnectionPool]:
        pool = self._of.pop(host, None) or guarded_pool(
            self._allow, ssl_context=self._ssl, connections=128, keepalive=32
        )
        self._of[host] = pool
        self._in_use[host] += 1
        try:
            yield pool
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


async def _read(response: httpcore2.Response) -> bytes:
    """The first kilobyte as it came; the rest is read only as far as it keeps the connection usable."""
    head, size = b"", 0
    async for chunk in response.aiter_stream():
        size += len(chunk)
        head += chunk[: KEPT_OF_ANSWER - len(head)]
        if size > _READ_AT_MOST:
            break
    return head


def _since(began: float) -> float:
    return (time.perf_counter() - began) * 1000


def _retry_after(response: httpcore2.Response) -> str | None:
    for name, value in response.headers:
        if name.lower() == b"retry-after":
            return value.decode("latin-1")
    return None


@lru_cache(maxsize=20_000)
def _parsed(url: str) -> _Target:
    parsed = httpx2.URL(url)
    raw = httpcore2.URL(
        scheme=parsed.raw_scheme, host=parsed.raw_host, port=parsed.port, target=parsed.raw_path
    )
    return _Target(raw, parsed.netloc, (parsed.scheme, parsed.host, parsed.port))
