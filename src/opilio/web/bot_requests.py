"""A short way for bots: their requests without the layers of the framework, which cost more than a pull or a submit.

Only for requests in their usual form. Whatever is unusual (another method, a query, no bearer token) is the framework's.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

from litestar import Request, Response
from litestar.types import Receive, Scope, Send

from opilio.contracts.decoding import decode, decoder
from opilio.logs import structlog
from opilio.runtime.bootstrap import Opilio
from opilio.web.codec import JSON, AnyRequest, envelope, read_chunks
from opilio.web.headers import SECURITY_HEADERS, request_id
from opilio.web.proxy import HSTS, BehindProxy
from opilio.web.routes import Call, Endpoint, NoQuery, must_be_bot

Explain = Callable[[AnyRequest, Exception], Response[bytes]]
Answer = tuple[int, list[tuple[bytes, bytes]], bytes]
_HEADERS = ((b"content-type", JSON.encode()), *SECURITY_HEADERS)
_NO_QUERY = NoQuery()
_NO_HEADERS: dict[str, str] = {}
_BEARER = b"bearer "
# A host that is not one is refused by the framework.
_HOST = re.compile(rb"[A-Za-z0-9._:\[\]-]*")


class BotRequests:
    """The endpoints of bots by path, with and without a slash at the end."""

    def __init__(self, endpoints: Iterable[Endpoint], explain: Explain) -> None:
        ours = {endpoint.path: (endpoint, decoder(endpoint.body)) for endpoint in endpoints}
        self._endpoints = {f"{path}{slash}": found for path, found in ours.items() for slash in ("", "/")}
        self._explain = explain

    def knows(self, path: str) -> bool:
        return path in self._endpoints

    def token(self, scope: Any) -> str:
        """The token of a request that can go the short way; empty if it cannot."""
        if scope["path"] not in self._endpoints or scope["method"] != "POST":
            return ""
        if scope["query_string"] or scope.get("root_path") or not _HOST.fullmatch(_header(scope, b"host")):
            return ""
        header = _header(scope, b"authorization")
        return header[len(_BEARER) :].decode("latin-1").strip() if header[:7].lower() == _BEARER else ""

    async def serve(self, opilio: Opilio, token: str, scope: Scope, receive: Receive, send: Send) -> None:
        """As an ASGI application."""
        status, headers, body = await self.answer(opilio, token, scope, receive)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    async def answer(
        self, opilio: Opilio, token: str, scope: Scope, receive: Receive, sent: bytes | None = None
    ) -> Answer:
        """The body is what was sent, or is read."""
        ours = request_id(scope)
        bound = structlog.contextvars.bind_contextvars(request_id=ours.decode())
        request: AnyRequest = Request(scope, receive)
        try:
            body, status, more = await self._handle(opilio, token, request, sent), 200, _NO_HEADERS
        except Exception as error:  # noqa: BLE001 - answered as the framework would answer it
            explained = self._explain(request, error)
            body, status, more = explained.content, explained.status_code or 500, explained.headers
        finally:
            structlog.contextvars.reset_contextvars(**bound)
        headers = [*_HEADERS, (b"content-length", b"%d" % len(body)), (b"x-request-id", ours)]
        if more:
            headers += [(name.encode(), value.encode()) for name, value in more.items()]
        return status, headers, body

    async def _handle(self, opilio: Opilio, token: str, request: AnyRequest, sent: bytes | None) -> bytes:
        endpoint, reader = self._endpoints[request.scope["path"]]
        who = must_be_bot(await opilio.credentials.authenticate(token))
        if sent is None:
            claimed = _header(request.scope, b"content-length").decode("latin-1")
            sent = await read_chunks(request.receive, claimed, self._most_bytes(opilio, endpoint))
        body: Any = decode(sent, reader)
        return envelope(await endpoint.handler(Call(opilio, request, who, _NO_QUERY, body)))

    def is_too_large(self, opilio: Opilio, path: str, body: bytes) -> bool:
        return len(body) > self._most_bytes(opilio, self._endpoints[path][0])

    @staticmethod
    def _most_bytes(opilio: Opilio, endpoint: Endpoint) -> int:
        return opilio.settings.max_body_mb * 2**20 * endpoint.body_factor


class ShortWayForBots:
    """The same for requests that arrived in one piece, without ASGI between the connection and the handler."""

    def __init__(self, bots: BotRequests, opilio: Opilio, proxy: BehindProxy) -> None:
        self._bots = bots
        self._opilio = opilio
        self._proxy = proxy

    def accepts(self, scope: Any) -> bool:
        return scope["method"] == "POST" and self._bots.knows(self._proxy.local_path(scope["path"]))

    async def answer(self, scope: Any, receive: Any, body: bytes) -> Answer | None:
        local: Any = {**scope}  # the application gets the original
        https = self._proxy.prepare(local)
        token = self._bots.token(local)
        if not token or self._bots.is_too_large(self._opilio, local["path"], body):
            return None
        status, headers, answer = await self._bots.answer(self._opilio, token, local, receive, body)
        return status, [*headers, HSTS] if https else headers, answer


def _header(scope: Any, name: bytes) -> bytes:
    return next((value for key, value in scope["headers"] if key == name), b"")
