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
from opilio.web.routes import Call, Endpoint, NoQuery, must_be_bot

Explain = Callable[[AnyRequest, Exception], Response[bytes]]
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

    def token(self, scope: Any) -> str:
        """The token of a request that can go the short way; empty if it cannot."""
        if scope["path"] not in self._endpoints or scope["method"] != "POST":
            return ""
        if scope["query_string"] or scope.get("root_path") or not _HOST.fullmatch(_header(scope, b"host")):
            return ""
        header = _header(scope, b"authorization")
        return header[len(_BEARER) :].decode("latin-1").strip() if header[:7].lower() == _BEARER else ""

    async def serve(self, opilio: Opilio, token: str, scope: Scope, receive: Receive, send: Send) -> None:
        ours = request_id(scope)
        bound = structlog.contextvars.bind_contextvars(request_id=ours.decode())
        request: AnyRequest = Request(scope, receive, send)
        try:
            body, status, more = await self._answer(opilio, token, request), 200, _NO_HEADERS
        except Exception as error:  # noqa: BLE001 - answered as the framework would answer it
            explained = self._explain(request, error)
            body, status, more = explained.content, explained.status_code or 500, explained.headers
        finally:
            structlog.contextvars.reset_contextvars(**bound)
        headers = [
            (b"content-type", JSON.encode()),
            (b"content-length", b"%d" % len(body)),
            *((name.encode(), value.encode()) for name, value in more.items()),
            *SECURITY_HEADERS,
            (b"x-request-id", ours),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    async def _answer(self, opilio: Opilio, token: str, request: AnyRequest) -> bytes:
        endpoint, reader = self._endpoints[request.scope["path"]]
        who = must_be_bot(await opilio.credentials.authenticate(token))
        most = opilio.settings.max_body_mb * 2**20 * endpoint.body_factor
        claimed = _header(request.scope, b"content-length").decode("latin-1")
        body: Any = decode(await read_chunks(request.receive, claimed, most), reader)
        return envelope(await endpoint.handler(Call(opilio, request, who, _NO_QUERY, body)))


def _header(scope: Any, name: bytes) -> bytes:
    return next((value for key, value in scope["headers"] if key == name), b"")
