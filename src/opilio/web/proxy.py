"""Behind a reverse proxy: the client's address and scheme from trusted headers, and a path under which Opilio is served."""

import re
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from opilio.net.allowed_addresses import AllowList

Asgi = Callable[[Any, Any, Any], Awaitable[None]]
Message = dict[str, Any]

# Attributes whose value is a path of this site, in pages and in the fragments of event streams.
_LINKS = re.compile(
    rb'\b(href|src|action|formaction|hx-get|hx-post|hx-push-url|hx-sse:connect|data-url|data-href)="/(?!/)'
)
_REDIRECTS = (b"location", b"hx-redirect", b"hx-location", b"hx-push-url")
HSTS = (b"strict-transport-security", b"max-age=31536000")


class BehindProxy:
    """An ASGI application as a proxy's clients see it."""

    def __init__(self, app: Asgi, *, public_url: str | None, trusted: AllowList | None) -> None:
        parts = urlsplit(public_url or "")
        self._app = app
        self._https = parts.scheme == "https"
        self._prefix = parts.path.rstrip("/").encode()
        self._trusted = trusted

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        https = self.prepare(scope)
        if https or self._prefix:
            send = _Response(send, self._prefix, https=https).send
        await self._app(scope, receive, send)

    def prepare(self, scope: Any) -> bool:
        """Makes the scope what the client sees, with a path of this site; answers whether the client uses https."""
        if self._trusted is not None and scope.get("client"):
            apply_forwarded(scope, self._trusted)
        path = scope["path"]
        scope["path"] = self.local_path(path)
        if scope["path"] is not path:
            scope["raw_path"] = scope.get("raw_path", b"").removeprefix(self._prefix) or b"/"
        return self._https or scope["scheme"] == "https"

    def local_path(self, path: str) -> str:
        """Proxies may remove the path under which Opilio is served or keep it; both work."""
        prefix = self._prefix.decode()
        if prefix and (path == prefix or path.startswith(f"{prefix}/")):
            return path.removeprefix(prefix) or "/"
        return path


class _Response:
    """Adds the path to links and redirects, and HSTS under https."""

    def __init__(self, send: Any, prefix: bytes, *, https: bool) -> None:
        self._send = send
        self._prefix = prefix
        self._https = https
        self._start: Message | None = None
        self._body = bytearray()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            await self._send_start(message)
        elif message["type"] == "http.response.body" and self._start is not None:
            await self._collect(message)
        elif message["type"] == "http.response.body" and self._streamed:
            await self._send({**message, "body": self._linked(message.get("body", b""))})
        else:
            await self._send(message)

    async def _send_start(self, message: Message) -> None:
        headers = [(name, self._redirected(name, value)) for name, value in message["headers"]]
        if self._https:
            headers.append(HSTS)
        message = {**message, "headers": headers}
        media_type = next((value for name, value in headers if name == b"content-type"), b"")
        self._streamed = bool(self._prefix) and media_type.startswith(b"text/event-stream")
        if self._prefix and media_type.startswith(b"text/html"):
            self._start = message  # its length is known when the body is complete
        else:
            await self._send(message)

    async def _collect(self, message: Message) -> None:
        self._body += message.get("body", b"")
        if message.get("more_body"):
            return
        start, body = self._start, self._linked(bytes(self._body))
        assert start is not None
        headers = [(name, value) for name, value in start["headers"] if name != b"content-length"]
        await self._send({**start, "headers": [*headers, (b"content-length", str(len(body)).encode())]})
        await self._send({"type": "http.response.body", "body": body})

    def _linked(self, body: bytes) -> bytes:
        return _LINKS.sub(rb'\1="' + self._prefix + b"/", body)

    def _redirected(self, name: bytes, value: bytes) -> bytes:
        local = name in _REDIRECTS and value.startswith(b"/") and not value.startswith(b"//")
        return self._prefix + value if local else value


def apply_forwarded(scope: Any, trusted: AllowList) -> None:
    """Takes scheme, host and client from X-Forwarded-* if the connection comes from a trusted proxy."""
    if not _is_trusted(scope["client"][0], trusted):
        return
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    scheme = headers.get(b"x-forwarded-proto", "").rsplit(",", 1)[-1].strip()
    if scheme in ("http", "https"):
        scope["scheme"] = scheme
    hops = [hop.strip() for hop in headers.get(b"x-forwarded-for", "").split(",") if hop.strip()]
    client = next((hop for hop in reversed(hops) if not _is_trusted(hop, trusted)), hops[0] if hops else "")
    if client:
        scope["client"] = (client, 0)
    if host := headers.get(b"x-forwarded-host", "").rsplit(",", 1)[-1].strip():
        others = [(name, value) for name, value in scope["headers"] if name != b"host"]
        scope["headers"] = [*others, (b"host", host.encode("latin-1"))]


def _is_trusted(address: str, trusted: AllowList) -> bool:
    return trusted.contains(address)
