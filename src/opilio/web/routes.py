"""An endpoint is data: what it takes, what it answers, who may call it. Routes and OpenAPI are made from it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

import msgspec
from litestar import Response
from litestar.handlers import HTTPRouteHandler, route

from opilio.access.identity import Bot, Operator
from opilio.contracts.decoding import decode, decoder
from opilio.errors import Invalid, Refused
from opilio.runtime.bootstrap import Opilio
from opilio.web.codec import AnyRequest, answer, check_text, read_body, read_query

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Need = Literal["bot", "read", "write", "admin"]


class NoQuery(msgspec.Struct, forbid_unknown_fields=True):
    """No parameters."""


@dataclass(slots=True)
class Call:
    """One request, checked: who asks, and what."""

    opilio: Opilio
    request: AnyRequest
    who: Any
    query: Any
    body: Any

    @property
    def actor(self) -> str:
        operator: Operator = self.who
        return operator.actor

    def text(self, name: str) -> str:
        value = str(self.request.path_params[name])
        if "\x00" in value:
            raise Invalid(name, "contains the character U+0000")
        return value

    def uuid(self, name: str = "id") -> UUID:
        try:
            return UUID(self.text(name))
        except ValueError:
            raise Invalid(name, "must be a UUID") from None


Handler = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method of one path."""

    method: Method
    path: str
    need: Need
    summary: str
    handler: Handler
    body: Any = None
    documented_body: Any = None  # where the documentation shows more than the body that is decoded
    answer: Any = None
    query: type[msgspec.Struct] = NoQuery
    status: int = 200
    errors: tuple[str, ...] = ()
    tag: str = ""
    media_types: tuple[str, ...] = ()
    body_factor: int = 1
    optional_body: bool = False
    raw_answers: tuple[str, ...] = ()
    params: dict[str, str] = field(default_factory=dict)

    def route(self) -> HTTPRouteHandler:
        reader = decoder(self.body) if self.body is not None and not self.media_types else None

        async def handle(request: AnyRequest) -> Response[Any]:
            opilio: Opilio = request.app.state.opilio
            who = await authenticate(request, opilio, self.need)
            query = read_query(request, self.query)
            body: Any = None
            if self.body is not None:
                raw = await read_body(request, opilio.settings.max_body_mb * 2**20 * self.body_factor)
                if raw or not self.optional_body:
                    body = raw if reader is None else decode(raw, reader)
                    if reader is not None and self.need != "bot":  # pages that bots send may contain anything
                        check_text(raw, body)
            result = await self.handler(Call(opilio, request, who, query, body))
            return result if isinstance(result, Response) else answer(result, self.status)

        return route(self.path, http_method=[self.method], status_code=self.status)(handle)


@dataclass(slots=True)
class Registry:
    """The endpoints of one API, in the order that the documentation shows them."""

    endpoints: list[Endpoint] = field(default_factory=list)

    def add(
        self, method: Method, path: str, need: Need, summary: str, **about: Any
    ) -> Callable[[Handler], Handler]:
        def register(handler: Handler) -> Handler:
            self.endpoints.append(Endpoint(method, path, need, summary, handler, **about))
            return handler

        return register


async def authenticate(request: AnyRequest, opilio: Opilio, need: Need) -> Bot | Operator:
    """Authentication comes before validation: a stranger learns nothing from error messages."""
    who = await _identify(request, opilio)
    if need == "bot":
        return must_be_bot(who)
    if not isinstance(who, Operator):
        raise Refused(
            "forbidden", "a bot token opens the bots' API only: use an API key (opilio keys create)"
        )
    who.must_have(need)
    return who


def must_be_bot(who: Bot | Operator) -> Bot:
    if not isinstance(who, Bot):
        raise Refused("forbidden", "this is the bots' API: use a bot token (opilio bots token BOT_ID)")
    return who


async def _identify(request: AnyRequest, opilio: Opilio) -> Bot | Operator:
    header = request.headers.get("authorization", "")
    scheme, _, secret = header.partition(" ")
    if header:
        if scheme.lower() != "bearer" or not secret.strip():
            raise Refused("unauthorized", "send the header `Authorization: Bearer <token>`")
        return await opilio.credentials.authenticate(secret.strip())
    cookie = request.cookies.get("opilio_session")
    operator = await opilio.operators.session(cookie) if cookie else None
    if operator is None:
        raise Refused("unauthorized", "send the header `Authorization: Bearer <token>`, or log in")
    if request.method not in ("GET", "HEAD") and request.headers.get("x-csrf-token") != operator.csrf_token:
        raise Refused("forbidden", "a change from a browser session needs the header X-CSRF-Token")
    return operator
