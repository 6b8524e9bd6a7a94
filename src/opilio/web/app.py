"""The ASGI application."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from litestar import Litestar, Response, get
from litestar.enums import ScopeType
from litestar.exceptions import HTTPException, MethodNotAllowedException, NotFoundException
from litestar.plugins import PluginProtocol
from litestar.plugins.core import MsgspecDIPlugin
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from opilio.access.login_limiter import LoginLimiter
from opilio.adapters.postgres.unavailable import TRY_AGAIN
from opilio.errors import Refused
from opilio.logs import get_logger, structlog
from opilio.runtime import metrics_page
from opilio.runtime.bootstrap import Opilio
from opilio.runtime.readiness import Readiness
from opilio.web.api import MANAGEMENT
from opilio.web.bot_api import BOT_API
from opilio.web.bot_requests import BotRequests, ShortWayForBots
from opilio.web.codec import AnyRequest, answer, refuse
from opilio.web.dashboard.page import show_error, wants_html
from opilio.web.dashboard.routes import dashboard_routes, serve_dashboard
from opilio.web.documents import document_routes
from opilio.web.headers import SECURITY_HEADERS, request_id
from opilio.web.login import login_routes
from opilio.web.proxy import BehindProxy
from opilio.web.routes import Endpoint

_log = get_logger(__name__)


def endpoints() -> list[Endpoint]:
    return [*BOT_API.endpoints, *MANAGEMENT]


def create_app(opilio: Opilio) -> Litestar:
    """An application around an Opilio that the caller opens and closes."""
    return use(build_app(), opilio)


def build_app() -> Litestar:
    """All routes; a process does it while the database starts, and hands the Opilio over with `use`."""
    return _litestar(_lifespan)


def use(app: Litestar, opilio: Opilio) -> Litestar:
    app.state.opilio = opilio
    return app


@asynccontextmanager
async def _lifespan(app: Litestar) -> AsyncIterator[None]:
    async with serve_beside(app, app.state.opilio):
        yield


@asynccontextmanager
async def serve_beside(app: Litestar, opilio: Opilio) -> AsyncIterator[None]:
    """What runs beside the server: bot activity, notifications of other processes, the dashboard's own tasks."""
    dispatcher = opilio.dispatcher
    app.state.opilio = opilio
    app.state.login_limiter = LoginLimiter(opilio.settings.login_attempts_per_minute)
    app.state.readiness = Readiness(opilio.database)

    def heard(channel: str, _payload: str) -> None:
        if channel == "opilio_work":
            dispatcher.wake()
        else:
            opilio.credentials.clear_cache()

    listener = await opilio.database.listen(["opilio_work", "opilio_access"], heard)
    activity = asyncio.create_task(dispatcher.keep_writing_activity())
    try:
        async with serve_dashboard(app, opilio):
            yield
    finally:
        activity.cancel()
        await asyncio.gather(activity, return_exceptions=True)
        await dispatcher.write_activity()
        await listener.close()


class App(Litestar):
    """The framework's application, with a short way for bots.

    Without its plugins for Pydantic and attrs: to load what nobody uses took a third of the time that routes take.
    """

    @staticmethod
    def _get_default_plugins(plugins: list[PluginProtocol]) -> list[PluginProtocol]:
        return [*plugins, MsgspecDIPlugin()]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        token = _BOT_REQUESTS.token(scope) if scope["type"] == ScopeType.HTTP else ""
        if not token:
            await super().__call__(scope, receive, send)
            return
        await _BOT_REQUESTS.serve(self.state.opilio, token, scope, receive, send)


def _litestar(lifespan: Callable[[Litestar], Any]) -> Litestar:
    return App(
        route_handlers=[
            *(endpoint.route() for endpoint in endpoints()),
            *document_routes(),
            *login_routes(),
            *dashboard_routes(),
            healthz,
            readyz,
            show_metrics,
        ],
        lifespan=[lifespan],
        openapi_config=None,
        exception_handlers={Refused: _refused, HTTPException: _http_error, Exception: _crashed},
        middleware=[_outermost],
        logging_config=None,
        request_max_body_size=None,  # read_body and the HTTP edge have the limits of the settings, and answer 413
    )


# ── health ───────────────────────────────────────────────────────────────────────────────────────


@get("/healthz", media_type="application/json")
async def healthz() -> Response[bytes]:
    """The process lives."""
    return answer({"status": "ok"})


@get("/readyz", media_type="application/json")
async def readyz(request: AnyRequest) -> Response[bytes]:
    """The process can serve: the database answers and has the schema of this version."""
    if fault := await request.app.state.readiness.fault():
        return refuse(Refused("unavailable", fault), {"retry-after": "2"})
    return answer({"status": "ready"})


@get("/metrics", media_type="text/plain")
async def show_metrics(request: AnyRequest) -> Response[bytes]:
    opilio = request.app.state.opilio
    body = await metrics_page.render(opilio.insights, bare_names=opilio.settings.metrics_bare_names)
    return Response(body, media_type="text/plain; version=0.0.4; charset=utf-8")


# ── errors ───────────────────────────────────────────────────────────────────────────────────────


def _refused(_request: AnyRequest, error: Refused) -> Response[bytes]:
    headers = {"www-authenticate": "Bearer"} if error.code == "unauthorized" else {}
    if error.code in ("rate_limited", "unavailable"):
        headers["retry-after"] = str((error.details or {}).get("retry_after", 1))
    return refuse(error, headers)


def _http_error(request: AnyRequest, error: HTTPException) -> Response[bytes]:
    if isinstance(error, NotFoundException):
        missing = Refused("not_found", "page not found: %(path)s", path=request.url.path)
        return show_error(request, missing) if wants_html(request) else refuse(missing)
    if isinstance(error, MethodNotAllowedException):
        methods = next(
            (value for name, value in (error.headers or {}).items() if name.lower() == "allow"), ""
        )
        allow = ", ".join(sorted(methods.split(", ")))
        refusal = Refused(
            "method_not_allowed",
            "%(method)s is not allowed here; allowed: %(allow)s",
            method=request.method,
            allow=allow,
        )
        if wants_html(request):
            return show_error(request, refusal)
        return refuse(refusal, {"allow": allow})
    return refuse(Refused("validation_error", error.detail))


def _crashed(request: AnyRequest, error: Exception) -> Response[Any]:
    if isinstance(error, TRY_AGAIN):
        _log.warning("request.unavailable", path=request.url.path, error=str(error) or type(error).__name__)
        away = Refused("unavailable", "the database does not answer or is overloaded; try again")
        if wants_html(request):
            page = show_error(request, away)
            page.headers["retry-after"] = "2"
            return page
        return refuse(away, {"retry-after": "2"})
    _log.exception("request.failed", path=request.url.path, exc_info=error)
    fault = Refused("internal_error", "internal error; the server log has the details")
    return show_error(request, fault) if wants_html(request) else refuse(fault)


def _explain(request: AnyRequest, error: Exception) -> Response[Any]:
    return _refused(request, error) if isinstance(error, Refused) else _crashed(request, error)


_BOT_REQUESTS = BotRequests(BOT_API.endpoints, _explain)


def short_way(opilio: Opilio, proxy: BehindProxy) -> ShortWayForBots:
    return ShortWayForBots(_BOT_REQUESTS, opilio, proxy)


def _outermost(app: ASGIApp) -> ASGIApp:
    """A request id on everything, bound to the log, and headers that browsers should see."""

    async def middleware(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            await app(scope, receive, send)
            return
        ours = request_id(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                said = {name for name, _ in message["headers"]}
                more = [header for header in SECURITY_HEADERS if header[0] not in said]
                message["headers"] = [*message["headers"], *more, (b"x-request-id", ours)]
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=ours.decode()):
            await app(scope, receive, send_with_headers)

    return middleware
