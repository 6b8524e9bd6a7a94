"""Limits of the HTTP server that hold for every request: concurrent requests, body size, slow and unread bodies."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from opilio.errors import Refused

Asgi = Callable[[Any, Any, Any], Awaitable[None]]
Message = dict[str, Any]

# A body that the application did not read is read and thrown away before the answer: closing a connection with unread
# bytes resets it, and the client would never see the answer. What is larger or slower than this is cut off.
_DRAINED_BYTES = 512 * 2**20
_DRAIN_SECONDS = 10.0
_CUT_OFF = _DRAINED_BYTES + 1
_ALWAYS_ANSWERED = ("/healthz", "/readyz", "/metrics")


@dataclass(frozen=True, slots=True)
class EdgeLimits:
    """What one process accepts."""

    requests: int
    body_bytes: int
    body_idle_seconds: float
    body_seconds: float


class HttpEdge:
    """Wraps an ASGI application; `open_requests` are the server's, each a task."""

    def __init__(self, app: Asgi, limits: EdgeLimits) -> None:
        self._app = app
        self._limits = limits
        self.open_requests: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif self.is_full() and scope["path"] not in _ALWAYS_ANSWERED:
            await _send_busy(send)
        else:
            await _Exchange(scope, receive, send, self._limits).run(self._app)

    def is_full(self) -> bool:
        return len(self.open_requests) > self._limits.requests

    def cancel_open_requests(self) -> None:
        for task in list(self.open_requests):
            task.cancel()


class _Exchange:
    """One request and its response."""

    def __init__(self, scope: Any, receive: Any, send: Any, limits: EdgeLimits) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._limits = limits
        self._unread = _has_body(scope)
        self._size = 0
        self._deadline = time.monotonic() + limits.body_seconds

    async def run(self, app: Asgi) -> None:
        await app(self._scope, self.receive, self.send)

    async def receive(self) -> Message:
        if not self._unread:
            message: Message = await self._receive()
            return message
        message = await self._next(self._limits.body_idle_seconds)
        if self._size > self._limits.body_bytes:
            raise Refused(
                "payload_too_large",
                "the body is larger than %(bytes)s bytes",
                bytes=self._limits.body_bytes,
            )
        return message

    async def _next(self, patience: float) -> Message:
        """The next part of the body, within time."""
        left = min(patience, self._deadline - time.monotonic())
        try:
            async with asyncio.timeout(max(left, 0)):
                message: Message = await self._receive()
        except TimeoutError:
            self._size = _CUT_OFF
            raise Refused("request_timeout", "the body did not arrive in time; send it again") from None
        self._size += len(message.get("body", b""))
        self._unread = message["type"] == "http.request" and bool(message.get("more_body"))
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and not await self._drained():
            message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
        await self._send(message)

    async def _drained(self) -> bool:
        """Reads the rest of the body; False if the connection must be closed instead."""
        self._deadline = time.monotonic() + _DRAIN_SECONDS
        if _claimed_bytes(self._scope) > _DRAINED_BYTES:
            return not self._unread
        try:
            while self._unread and self._size <= _DRAINED_BYTES:
                await self._next(_DRAIN_SECONDS)
        except Refused:
            return False
        return not self._unread


def _headers(scope: Any, name: bytes) -> bytes:
    return next((value for key, value in scope["headers"] if key == name), b"")


def _claimed_bytes(scope: Any) -> int:
    claimed = _headers(scope, b"content-length")
    return int(claimed) if claimed.isdigit() else 0


def _has_body(scope: Any) -> bool:
    return _claimed_bytes(scope) > 0 or bool(_headers(scope, b"transfer-encoding"))


def error_body(code: str, message: str) -> bytes:
    return json.dumps({"success": False, "error": {"code": code, "message": message}}).encode()


async def _send_busy(send: Any) -> None:
    body = error_body("unavailable", "the server has too many open requests; try again")
    headers = [(b"content-type", b"application/json"), (b"retry-after", b"2"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": body})
