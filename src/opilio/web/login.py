"""Logging in: the one-time link, the password, the session cookie."""

import time
from collections import defaultdict, deque
from typing import Annotated, Any
from urllib.parse import parse_qsl, quote

import msgspec
from litestar import Response, get, post
from litestar.datastructures import Cookie
from litestar.handlers import HTTPRouteHandler
from litestar.response import Redirect
from msgspec import Meta

from opilio.access.identity import Operator
from opilio.errors import Refused
from opilio.runtime.bootstrap import Opilio
from opilio.web.codec import AnyRequest, answer, decode, decoder, read_body
from opilio.web.dashboard.i18n import Locale, choose_language
from opilio.web.dashboard.render import render_plain

COOKIE = "opilio_session"
_SESSION_SECONDS = 14 * 24 * 3600
_FORM_BYTES = 16 * 1024


class LoginRequest(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, max_length=100)]
    password: Annotated[str, Meta(min_length=1, max_length=1000)]


_reader = decoder(LoginRequest)


def login_routes() -> list[HTTPRouteHandler]:
    return [login_page, log_in, link_page, use_link, log_out, api_login]


def page(request: AnyRequest, template: str, status: int = 200, **values: Any) -> Response[Any]:
    locale = Locale(
        choose_language(request.cookies.get("opilio_lang"), request.headers.get("accept-language", ""))
    )
    return render_plain(template, locale, status=status, **values)


class Attempts:
    """Slows down guessing: so many wrong passwords a minute from one address."""

    def __init__(self) -> None:
        self._failed: defaultdict[str, deque[float]] = defaultdict(deque)

    def check(self, address: str, most: int) -> None:
        failed = self._failed[address]
        while failed and failed[0] < time.monotonic() - 60:
            failed.popleft()
        if len(failed) >= most:
            wait = int(61 - (time.monotonic() - failed[0]))
            raise Refused("rate_limited", f"too many attempts; wait {wait} s", {"retry_after": wait})

    def note_failure(self, address: str) -> None:
        if len(self._failed) > 10_000:
            self._failed.clear()
        self._failed[address].append(time.monotonic())


@get("/login", media_type="text/html")
async def login_page(request: AnyRequest) -> Response[Any]:
    opilio: Opilio = request.app.state.opilio
    first = not await opilio.operators.has_password()
    return page(request, "login.html", error=None, first=first, next=request.query_params.get("next", "/"))


@post("/login", media_type="text/html")
async def log_in(request: AnyRequest) -> Response[Any]:
    form = await _form(request)
    try:
        secret = await _try_password(request, form.get("name", ""), form.get("password", ""))
    except Refused as refusal:
        status = 429 if refusal.code == "rate_limited" else 401
        return page(request, "login.html", status, error=refusal, first=False, next=form.get("next", "/"))
    return _enter(request, secret, form.get("next", "/"))


@get("/login/{secret:str}", media_type="text/html")
async def link_page(request: AnyRequest) -> Response[Any]:
    """Shows the form only: a link that a mail scanner or a preview opened must still work."""
    secret = str(request.path_params["secret"])
    opilio: Opilio = request.app.state.opilio
    name = await opilio.operators.owner_of_link(secret)
    return page(request, "link.html", 200 if name else 410, name=name, secret=secret, error=None)


@post("/login/{secret:str}", media_type="text/html")
async def use_link(request: AnyRequest) -> Response[Any]:
    secret = str(request.path_params["secret"])
    opilio: Opilio = request.app.state.opilio
    form = await _form(request)
    name = await opilio.operators.owner_of_link(secret)
    if form.get("password") != form.get("again"):
        return page(
            request,
            "link.html",
            400,
            name=name,
            secret=secret,
            error=Refused("validation_error", "the two passwords differ"),
        )
    try:
        session = await opilio.operators.use_link(secret, form.get("password", ""))
    except Refused as refusal:
        return page(request, "link.html", 400, name=name, secret=secret, error=refusal)
    return _enter(request, session)


@post("/logout", media_type="text/html")
async def log_out(request: AnyRequest) -> Response[Any]:
    opilio: Opilio = request.app.state.opilio
    operator = await current_operator(request)
    form = await _form(request)
    if operator is not None and form.get("csrf") == operator.csrf_token:
        await opilio.operators.log_out(request.cookies[COOKIE])
    return Redirect("/login", status_code=303)


@post("/api/v1/session", media_type="application/json")
async def api_login(request: AnyRequest) -> Response[bytes]:
    """Password → session, for programs that speak JSON; answers the token for X-CSRF-Token."""
    asked = decode(await read_body(request, _FORM_BYTES), _reader)
    secret = await _try_password(request, asked.name, asked.password)
    operator = await request.app.state.opilio.operators.session(secret)
    response = answer(
        {"actor": operator.actor, "scope": operator.scope, "csrf_token": operator.csrf_token}, 201
    )
    response.cookies = [_cookie(request, secret)]
    return response


async def current_operator(request: AnyRequest) -> Operator | None:
    secret = request.cookies.get(COOKIE)
    opilio: Opilio = request.app.state.opilio
    return await opilio.operators.session(secret) if secret else None


async def _try_password(request: AnyRequest, name: str, password: str) -> str:
    opilio: Opilio = request.app.state.opilio
    attempts: Attempts = request.app.state.attempts
    address = request.client.host if request.client else "?"
    attempts.check(address, opilio.settings.login_attempts_per_minute)
    try:
        return await opilio.operators.log_in(name.replace("\x00", ""), password)
    except Refused:
        attempts.note_failure(address)
        raise


async def _form(request: AnyRequest) -> dict[str, str]:
    body = await read_body(request, _FORM_BYTES)
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def _enter(request: AnyRequest, secret: str, path: str = "/") -> Response[Any]:
    """On to where the viewer wanted to go, if that is a page of this site."""
    local = path.startswith("/") and not path.startswith(("//", "/\\"))
    response: Redirect = Redirect(path if local else "/", status_code=303)
    response.cookies = [_cookie(request, secret)]
    return response


def _cookie(request: AnyRequest, secret: str) -> Cookie:
    secure = request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"
    return Cookie(
        key=COOKIE,
        value=quote(secret),
        max_age=_SESSION_SECONDS,
        httponly=True,
        secure=secure,
        samesite="lax",
    )
