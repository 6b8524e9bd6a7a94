"""The HTTP client for webhooks: sends one and returns what came back."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import TracebackType
from typing import NamedTuple, Self

import httpcore2
import httpx2

from opilio import __version__
from opilio.delivery.webhooks.health import Response
from opilio.delivery.webhooks.retry import parse_retry_after
from opilio.net.allowed_addresses import AllowList
from opilio.net.guarded_connect import GuardedBackend

KEPT_OF_BODY = 1024
_KEPT_SECONDS = 15.0  # of an idle connection
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


class WebhookClient:
    """No redirects, no proxies, permitted addresses only, in bounded time.

    It uses httpcore directly: the models of a full client took two fifths of the time of an attempt.
    """

    def __init__(self, allow: AllowList, *, limit: timedelta = timedelta(seconds=15)) -> None:
        self._limit = limit.total_seconds()
        self._connections = _Connections(allow)
        # The whole exchange has a limit; connecting has a shorter one, so that a host that is down is known sooner.
        self._timeouts = {"connect": min(5.0, self._limit), "read": None, "write": None, "pool": None}

    async def send(self, url: str, body: bytes, headers: dict[str, str]) -> Response:
        began = time.perf_counter()
        try:
            async with asyncio.timeout(self._limit):
                return await self._exchange(url, body, headers, began)
        except TimeoutError:
            return Response(None, _since(began), error=f"no answer within {self._limit:g} seconds")
        except (*_FAILURES, httpx2.InvalidURL, OSError, ValueError) as error:
            return Response(None, _since(began), error=str(error) or type(error).__name__)

    async def _exchange(self, url: str, body: bytes, headers: dict[str, str], began: float) -> Response:
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
        async with self._connections.to(target) as connection:
            response = await connection.handle_async_request(request)
            try:
                head = await _read(response)
            finally:
                await response.aclose()
        return Response(
            response.status,
            _since(began),
            body_start=head.decode(errors="replace").replace("\x00", "\ufffd"),
            retry_after=parse_retry_after(_retry_after(response), datetime.now(UTC)),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connections.close()


class _Connections:
    """Idle connections by host, last used first; the hosts used least recently lose theirs.

    The pool of httpcore looks at all its connections for every request: a third of the time of an attempt.
    """

    MOST_IDLE = 256

    def __init__(self, allow: AllowList) -> None:
        self._network = GuardedBackend(allow)
        self._ssl = httpx2.create_ssl_context(trust_env=False)
        self._idle: OrderedDict[_Host, list[httpcore2.AsyncHTTPConnection]] = OrderedDict()
        self._count = 0

    @asynccontextmanager
    async def to(self, target: _Target) -> AsyncIterator[httpcore2.AsyncHTTPConnection]:
        connection = await self._take(target)
        try:
            yield connection
        finally:
            await self._give_back(target.host, connection)

    async def _take(self, target: _Target) -> httpcore2.AsyncHTTPConnection:
        while connection := self._pop(target.host):
            if not connection.has_expired():
                return connection
            await connection.aclose()
        return httpcore2.AsyncHTTPConnection(
            target.url.origin,
            ssl_context=self._ssl,
            keepalive_expiry=_KEPT_SECONDS,
            network_backend=self._network,
        )

    def _pop(self, host: _Host, which: int = -1) -> httpcore2.AsyncHTTPConnection | None:
        idle = self._idle.get(host)
        if idle is None:
            return None
        connection = idle.pop(which)
        self._count -= 1
        if not idle:
            del self._idle[host]
        return connection

    async def _give_back(self, host: _Host, connection: httpcore2.AsyncHTTPConnection) -> None:
        if not connection.is_available():  # it failed, was cut short, or the receiver wants it closed
            await connection.aclose()
            return
        self._idle.setdefault(host, []).append(connection)
        self._idle.move_to_end(host)
        self._count += 1
        await self._close_surplus(self.MOST_IDLE)

    async def _close_surplus(self, kept: int) -> None:
        while self._idle:
            host, idle = next(iter(self._idle.items()))
            if self._count <= kept and not idle[0].has_expired():
                return
            oldest = self._pop(host, 0)
            assert oldest is not None
            await oldest.aclose()

    async def close(self) -> None:
        await self._close_surplus(-1)


async def _read(response: httpcore2.Response) -> bytes:
    """The first kilobyte; more is read only while that keeps the connection usable."""
    head, size = b"", 0
    async for chunk in response.aiter_stream():
        size += len(chunk)
        head += chunk[: KEPT_OF_BODY - len(head)]
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
