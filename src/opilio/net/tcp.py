"""A TCP connection for httpcore on plain asyncio.

httpcore's own backend uses anyio and polls every idle connection at every request: at a thousand webhooks a second
that was two fifths of the time spent sending.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, cast

import httpcore2
from httpcore2 import AsyncNetworkStream

_HIGH_WATER = 256 * 1024


class _Buffer(asyncio.Protocol):
    """Buffers what arrives until it is read, and pauses reading when the buffer is full."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.ended = False
        self.error: Exception | None = None
        self._transport: asyncio.Transport | None = None
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(
            "asyncio.Transport", transport
        )  # uvloop's transport is no subclass, but has the same methods

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if len(self.buffer) > _HIGH_WATER and self._transport:
            self._transport.pause_reading()
        _finish(self._reader)

    def eof_received(self) -> bool:
        self.ended = True
        _finish(self._reader)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended, self.error = True, exc
        _finish(self._reader)
        _finish(self._writer)

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        _finish(self._writer)

    async def wait_for_data(self) -> None:
        if not self.buffer and not self.ended:
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader

    async def wait_for_room(self) -> None:
        if self._full and not self.ended:
            self._writer = asyncio.get_running_loop().create_future()
            await self._writer

    def take(self, size: int) -> bytes:
        data = bytes(self.buffer[:size])
        del self.buffer[:size]
        if self._transport and not self.ended and len(self.buffer) <= _HIGH_WATER:
            self._transport.resume_reading()
        return data


def _finish(waiting: "asyncio.Future[None] | None") -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)


class Stream(AsyncNetworkStream):
    """An open connection; writes are sent when an answer is read, so that head and body leave together."""

    def __init__(self, transport: asyncio.Transport, protocol: _Buffer) -> None:
        self._transport = transport
        self._protocol = protocol
        self._unsent = bytearray()

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 (httpcore's interface)
        await self._flush(timeout)
        if not self._protocol.buffer:
            async with _in_time(timeout, httpcore2.ReadTimeout):
                await self._protocol.wait_for_data()
        if self._protocol.error is not None and not self._protocol.buffer:
            raise httpcore2.ReadError(str(self._protocol.error))
        return self._protocol.take(max_bytes)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        self._unsent += buffer
        if len(self._unsent) > _HIGH_WATER:
            await self._flush(timeout)

    async def _flush(self, limit: float | None) -> None:
        if not self._unsent:
            return
        if self._transport.is_closing():
            raise httpcore2.WriteError("the connection is closed")
        self._transport.write(bytes(self._unsent))
        self._unsent.clear()
        async with _in_time(limit, httpcore2.WriteTimeout):
            await self._protocol.wait_for_room()

    async def aclose(self) -> None:
        self._transport.abort()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> AsyncNetworkStream:
        loop = asyncio.get_running_loop()
        try:
            async with _in_time(timeout, httpcore2.ConnectTimeout):
                secured = await loop.start_tls(
                    self._transport, self._protocol, ssl_context, server_hostname=server_hostname
                )
        except (OSError, ssl.SSLError) as error:
            self._transport.abort()
            raise httpcore2.ConnectError(str(error) or type(error).__name__) from error
        if secured is None:
            raise httpcore2.ConnectError("the connection was closed while TLS was negotiated")
        self._protocol.connection_made(secured)
        return Stream(secured, self._protocol)

    def get_extra_info(self, info: str) -> Any:
        if (
            info == "is_readable"
        ):  # an idle connection that is readable was closed, or sends what was not asked for
            return self._protocol.ended or bool(self._protocol.buffer) or self._transport.is_closing()
        names = {"client_addr": "sockname", "server_addr": "peername"}
        return self._transport.get_extra_info(names.get(info, info))


async def connect(
    address: str,
    port: int,
    *,
    patience: float | None = None,
    local_address: str | None = None,
    options: Iterable[Any] | None = None,
) -> Stream:
    """Connects to an IP address; callers that check addresses must not pass a name, which would be resolved again."""
    loop = asyncio.get_running_loop()
    try:
        async with _in_time(patience, httpcore2.ConnectTimeout):
            transport, protocol = await loop.create_connection(
                _Buffer, address, port, local_addr=(local_address, 0) if local_address else None
            )
    except OSError as error:
        raise httpcore2.ConnectError(str(error) or type(error).__name__) from error
    for option in options or ():
        transport.get_extra_info("socket").setsockopt(*option)
    return Stream(transport, protocol)


@asynccontextmanager
async def _in_time(seconds: float | None, late: type[Exception]) -> AsyncIterator[None]:
    if seconds is None:
        yield
        return
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise late(f"no answer within {seconds:g} s") from None
