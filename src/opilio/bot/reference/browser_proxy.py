"""A forward proxy on loopback for the browser; it connects to permitted addresses only."""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

from opilio.net.allowed_addresses import AllowList
from opilio.net.guarded_connect import permitted_addresses

_MOST_REASONS = 1000
_MOST_HEADER_BYTES = 64 * 1024
_DEFAULT_PORT = {"http": 80, "https": 443}
_HOP_BY_HOP = ("proxy-", "connection:")


class BrowserProxy:
    """Supports CONNECT and plain requests; keeps why a connection failed, because the browser does not say."""

    def __init__(self, allow: AllowList) -> None:
        self._allow = allow
        self._reasons: OrderedDict[tuple[str, int], Exception] = OrderedDict()

    def reason(self, url: str) -> Exception | None:
        """Why the last connection to the host of this URL failed, if it did."""
        parts = urlsplit(url)
        port = parts.port or _DEFAULT_PORT.get(parts.scheme, 0)
        return self._reasons.pop((parts.hostname or "", port), None)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        tasks: set[asyncio.Task[None]] = set()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            try:
                await self._serve(reader, writer)
            except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                # The browser left, or sent no request: there is nobody to answer.
                writer.transport.abort()
            except asyncio.CancelledError:
                # Only the end of `serving` cancels.
                writer.transport.abort()
            finally:
                tasks.discard(task)
                writer.close()

        server = await asyncio.start_server(accept, "127.0.0.1", 0, limit=_MOST_HEADER_BYTES)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            for task in list(tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        method, target, version = head.split("\r\n", 1)[0].split(" ", 2)
        parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
        host, port = parts.hostname or "", parts.port or _DEFAULT_PORT.get(parts.scheme, 443)
        try:
            there, away = await self._connect(host, port)
        except Exception as error:  # noqa: BLE001  each reason is kept and told to whoever asks for it
            self._remember((host, port), error)
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            await writer.drain()
            return
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            away.write(_own_head(f"{method} {path} {version}", head))
        await _pipe_both(reader, writer, there, away)

    async def _connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        failed: OSError | None = None
        for address in await permitted_addresses(host, port, self._allow):
            try:
                return await asyncio.open_connection(address, port)
            except OSError as error:
                failed = error
        assert failed is not None
        raise failed

    def _remember(self, place: tuple[str, int], reason: Exception) -> None:
        self._reasons[place] = reason
        if len(self._reasons) > _MOST_REASONS:
            self._reasons.popitem(last=False)


def _own_head(request_line: str, head: str) -> bytes:
    """The request as the host expects it; one request per connection, so that bytes can be copied unread."""
    lines = [line for line in head.split("\r\n")[1:] if line and not line.lower().startswith(_HOP_BY_HOP)]
    return "\r\n".join([request_line, *lines, "Connection: close", "", ""]).encode("latin-1")


async def _pipe_both(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    there: asyncio.StreamReader,
    away: asyncio.StreamWriter,
) -> None:
    ways = [asyncio.ensure_future(_pipe(reader, away)), asyncio.ensure_future(_pipe(there, writer))]
    try:
        # When one direction ends, the other has no receiver any more.
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        away.close()


async def _pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while chunk := await source.read(64 * 1024):
        sink.write(chunk)
        await sink.drain()
