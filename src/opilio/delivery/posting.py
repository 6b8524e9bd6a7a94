"""Sends one webhook and tells what came back."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import TracebackType
from typing import Self

import httpx2

from opilio import __version__
from opilio.delivery.health import Answer
from opilio.delivery.retry import parse_retry_after
from opilio.netguard import AllowList, GuardedTransport

KEPT_OF_ANSWER = 1024
_READ_AT_MOST = 64 * 1024  # more than that is not worth keeping the connection for
_BASE = {
    "content-type": "application/json; charset=utf-8",
    "user-agent": f"Opilio/{__version__}",
    "accept": "*/*",
}


class Post:
    """An HTTP client for receivers: no redirects, no proxies, permitted addresses only, in bounded time."""

    def __init__(
        self, allow: AllowList, *, limit: timedelta = timedelta(seconds=15), connections: int = 256
    ) -> None:
        self._limit = limit.total_seconds()
        # A transport follows nothing and keeps no cookies; a client would have to be told not to.
        self._transport = GuardedTransport(allow, connections=connections, keepalive=connections // 2)
        self._timeouts = {
            "connect": min(5.0, self._limit),
            "read": self._limit,
            "write": self._limit,
            "pool": self._limit,
        }

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
        response = await self._transport.handle_async_request(request)
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
        await self._transport.aclose()


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
