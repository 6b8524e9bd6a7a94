"""Login and logout, login links, and changing one's own password."""

from collections.abc import Coroutine
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl, quote

import msgspec
from litestar import Response, get, post
from litestar.datastructures import Cookie
from litestar.handlers import HTTPRouteHandler
from litestar.response import Redirect
from msgspec import Meta

from opilio.access.identity import Operator
from opilio.access.login_limiter import LoginLimiter
from opilio.contracts.decoding import decode, decoder
from opilio.contracts.envelope import STATUS_OF
from opilio.errors import Refused
from opilio.runtime.bootstrap import Opilio
from opilio.web.codec import AnyRequest, answer, read_body
from opilio.web.dashboard.i18n import Locale, choose_language
from opilio.web.dashboard.render import render_plain

T = TypeVar("T")
COOKIE = "opilio_session"
_SESSION_SECONDS = 14 * 24 * 3600
_FORM_BYTES = 16 * 1024


class LoginRequest(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, max_length=100)]
    password: Annotated[str, Meta(min_length=1, max_length=1000)]


class PasswordRequest(msgspec.Struct, forbid_unknown_fields=True):
    current_password: Annotated[str, Meta(min_length=1, max_length=1000)]
    new_password: Annotated[str, Meta(min_length=1, max_length=1000)]


_DIFFER = Refused("validation_error", "the two passwords differ")
_OLD_FORM = Refused("forbidden", "this form has expired; reload the page and try again")
_login_reader = decoder(LoginRequest)
_password_reader = decoder(PasswordRequest)


def login_routes() -> list[HTTPRouteHandler]:
    return [
        login_page,
        log_in,
        link_page,
        use_link,
        log_out,
        change_password,
        api_login,
        api_change_password,
    ]


def page(request: AnyRequest, template: str, status: int = 200, **values: Any) -> Response[Any]:
    locale = Locale(
        choose_language(request.cookies.get("opilio_lang"), request.headers.get("accept-language", ""))
    )
    return render_plain(template, locale, status=status, **values)


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
        status = STATUS_OF[refusal.code]
        return page(request, "login.html", status, error=refusal, first=False, next=form.get("next", "/"))
    return _enter(request, secret, form.get("next", "/"))


@get("/login/{secret:str}", media_type="text/html")
async def link_page(request: AnyRequest) -> Response[Any]:
    """Shows the form only, so that a link that a mail scanner opened still works."""
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
    password = form.get("password", "")
    if password != form.get("again"):
        return page(request, "link.html", 400, name=name, secret=secret, error=_DIFFER)
    try:
        session = await _limited(
            request, "login link", opilio.operators.use_link(secret, password, address=_address(request))
        )
    except Refused as refusal:
        status = STATUS_OF[refusal.code] if refusal.code in ("rate_limited", "unavailable") else 400
        return page(request, "link.html", status, name=name, secret=secret, error=refusal)
    return _enter(request, session)


@post("/logout", media_type="text/html")
async def log_out(request: AnyRequest) -> Response[Any]:
    opilio: Opilio = request.app.state.opilio
    operator = await current_operator(request)
    form = await _form(request)
    if operator is not None and form.get("csrf") == operator.csrf_token:
        await opilio.operators.log_out(request.cookies[COOKIE])
    return Redirect("/login", status_code=303)


@post("/account", media_type="text/html")
async def change_password(request: AnyRequest) -> Response[Any]:
    operator = await current_operator(request)
    if operator is None:
        return Redirect("/login?next=/account", status_code=303)
    form = await _form(request)
    if form.get("csrf") != operator.csrf_token:
        return _account(request, operator, 403, error=_OLD_FORM)
    if form.get("password") != form.get("again"):
        return _account(request, operator, 400, error=_DIFFER)
    try:
        await _change_password(request, operator, form.get("current", ""), form.get("password", ""))
    except Refused as refusal:
        return _account(request, operator, STATUS_OF[refusal.code], error=refusal)
    return _account(request, operator, done=True)


def _account(
    request: AnyRequest,
    operator: Operator,
    status: int = 200,
    *,
    error: Refused | None = None,
    done: bool = False,
) -> Response[Any]:
    name = operator.actor.partition(":")[2]
    return page(request, "password.html", status, name=name, csrf=operator.csrf_token, error=error, done=done)


@post("/api/v1/session", media_type="application/json")
async def api_login(request: AnyRequest) -> Response[bytes]:
    """Name and password → a session cookie, and the token for the header X-CSRF-Token."""
    asked = decode(await read_body(request, _FORM_BYTES), _login_reader)
    secret = await _try_password(request, asked.name, asked.password)
    operator = await request.app.state.opilio.operators.session(secret)
    response = answer(
        {"actor": operator.actor, "scope": operator.scope, "csrf_token": operator.csrf_token}, 201
    )
    response.cookies = [_cookie(request, secret)]
    return response


@post("/api/v1/session/password", media_type="application/json", status_code=200)
async def api_change_password(request: AnyRequest) -> Response[bytes]:
    """Changes the password of the session's operator; other sessions and login links end."""
    operator = await current_operator(request)
    if operator is None:
        raise Refused("unauthorized", "log in first: only the owner of a session can change a password")
    if request.headers.get("x-csrf-token") != operator.csrf_token:
        raise Refused("forbidden", "a change from a browser session needs the header X-CSRF-Token")
    asked = decode(await read_body(request, _FORM_BYTES), _password_reader)
    await _change_password(request, operator, asked.current_password, asked.new_password)
    return answer({"changed": True})


async def current_operator(request: AnyRequest) -> Operator | None:
    secret = request.cookies.get(COOKIE)
    opilio: Opilio = request.app.state.opilio
    return await opilio.operators.session(secret) if secret else None


async def _try_password(request: AnyRequest, name: str, password: str) -> str:
    opilio: Opilio = request.app.state.opilio
    name = name.replace("\x00", "")[:100]
    return await _limited(request, name, opilio.operators.log_in(name, password, address=_address(request)))


async def _change_password(request: AnyRequest, operator: Operator, current: str, new: str) -> None:
    opilio: Opilio = request.app.state.opilio
    secret, address = request.cookies[COOKIE], _address(request)
    work = opilio.operators.change_password(secret, current, new, address=address)
    await _limited(request, operator.actor, work)


async def _limited(request: AnyRequest, name: str, work: Coroutine[Any, Any, T]) -> T:
    """Does what checks a secret, unless this address tried too often; a success does not count."""
    limiter: LoginLimiter = request.app.state.login_limiter
    address = _address(request)
    try:
        limiter.count(address, name)
    except Refused:
        work.close()
        raise
    result = await work
    limiter.take_back(address, name)
    return result


def _address(request: AnyRequest) -> str:
    return request.client.host if request.client else "?"


async def _form(request: AnyRequest) -> dict[str, str]:
    body = await read_body(request, _FORM_BYTES)
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def _enter(request: AnyRequest, secret: str, path: str = "/") -> Response[Any]:
    """Redirects to the page that was asked for, if it is one of this site."""
    local = path.startswith("/") and not path.startswith(("//", "/\\"))
    response: Redirect = Redirect(path if local else "/", status_code=303)
    response.cookies = [_cookie(request, secret)]
    return response


def _cookie(request: AnyRequest, secret: str) -> Cookie:
    return Cookie(
        key=COOKIE,
        value=quote(secret),
        max_age=_SESSION_SECONDS,
        httponly=True,
        secure=is_https(request),
        samesite="lax",
    )


def is_https(request: AnyRequest) -> bool:
    """Whether the browser speaks https: to this server, to a trusted proxy, or by the public address."""
    public: str = request.app.state.opilio.settings.public_url or ""
    return request.scope["scheme"] == "https" or public.startswith("https://")
