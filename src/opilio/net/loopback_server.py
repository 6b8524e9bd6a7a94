"""A small HTTP/1.1 server for loopback, used by the fake control plane and the demo shop.

It exists because the light install has no ASGI server. It supports keep-alive and `Content-Length` bodies only.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus

_MOST_HEADER_BYTES = 64 * 1024
_MOST_BODY_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes = b""

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


class HangUp(Exception):
    """Raised by a handler to close the connection without an answer."""


Handler = Callable[[Request], Awaitable[Reply]]


@contextlib.asynccontextmanager
async def serving(handler: Handler, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serves while the block runs and yields the address; port 0 takes a free one."""
    connections: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        try:
            await _serve_connection(handler, reader, writer)
        finally:
            connections.discard(task)

    server = await asyncio.start_server(accept, host, port, limit=_MOST_HEADER_BYTES)
    bound = server.sockets[0].getsockname()[1]
    try:
        yield f"http://{host}:{bound}"
    finally:
        server.close()
        for task in list(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


async def _serve_connection(
    handler: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    try:
        while (request := await _read(reader)) is not None:
            reply = await handler(request)
            writer.write(_encode(reply, with_body=request.method != "HEAD"))
            await writer.drain()
            if request.headers.get("connection", "").lower() == "close":
                break
    except (HangUp, ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
        # The client left or sent no HTTP: there is nobody to answer.
        writer.transport.abort()
    except asyncio.CancelledError:
        # Only `serving` cancels, when it ends.
        writer.transport.abort()
    finally:
        writer.close()


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if not error.partial:
            return None
        raise
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    length = int(headers.get("content-length", "0"))
    if length > _MOST_BODY_BYTES:
        raise ValueError("the body is too large for this server")
    return Request(method, target, headers, await reader.readexactly(length) if length else b"")


def _encode(reply: Reply, *, with_body: bool) -> bytes:
    headers = {
        "content-type": "text/plain; charset=utf-8",
        **reply.headers,
        "content-length": str(len(reply.body)),
    }
    lines = [f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
    return head + reply.body if with_body else head
