"""Runs one or more roles in this process."""

import asyncio
import gc
import json
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import Any, TypeAlias

from opilio import metrics, tracing
from opilio.adapters.postgres.unavailable import does_not_answer
from opilio.errors import Unavailable
from opilio.logs import get_logger
from opilio.runtime import metrics_page
from opilio.runtime.bootstrap import Opilio, open_opilio
from opilio.runtime.processes import holder_of_port, stop_on_signals
from opilio.runtime.readiness import Readiness
from opilio.runtime.roles import ROLES
from opilio.runtime.settings import Settings

Serve: TypeAlias = Callable[[Opilio, asyncio.Event], Awaitable[None]]

_log = get_logger(__name__)
_NEW_OBJECTS = (
    20_000  # between two looks for garbage; Python's 700 cost the API a tenth of its processor time
)


def load_roles(settings: Settings, roles: Sequence[str]) -> None:
    """Imports the modules of roles, so that they start at once when the database can be used."""
    for role in roles:
        import_module(ROLES[role])
    if "api" in roles:
        import_module(ROLES["api"]).load(settings.api_processes)


async def run_roles(settings: Settings, roles: Sequence[str]) -> None:
    """Runs roles in this process until Ctrl-C or SIGTERM; if one fails, all stop and the failure is raised."""
    # The embedded PostgreSQL would outlive a process that ends at once.
    stop = stop_on_signals(_wait_for_postgres if settings.embedded else None)
    async with open_opilio(settings, name=f"opilio {'+'.join(roles)}") as opilio:
        works = [import_module(ROLES[role]).serve for role in roles]
        if settings.metrics_port:
            works.append(serve_metrics)
        for role in roles:
            metrics.ROLE_UP.labels(role).set(1)
        tracing.start("+".join(roles))
        _log.info("roles.started", roles=list(roles))
        _collect_garbage_rarely()
        try:
            await _together(works, opilio, stop)
        finally:
            await asyncio.to_thread(tracing.stop)
    _log.info("roles.stopped", roles=list(roles))


def _collect_garbage_rarely() -> None:
    """What was loaded by now lives as long as the process, and requests leave hardly a cycle behind."""
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)


async def _together(works: Sequence[Serve], opilio: Opilio, stop: asyncio.Event) -> None:
    async def until_stopped(work: Serve) -> None:
        try:
            await work(opilio, stop)
        finally:
            stop.set()

    done = await asyncio.gather(*(until_stopped(work) for work in works), return_exceptions=True)
    for failure in done:
        if (
            isinstance(failure, Exception)
            and does_not_answer(failure)
            and not isinstance(failure, Unavailable)
        ):
            raise Unavailable(
                f"A server stopped answering while the roles were starting: {type(failure).__name__}: {failure}. "
                "Start this process again; a supervisor does so by itself."
            ) from failure
        if isinstance(failure, BaseException):
            raise failure


def _wait_for_postgres() -> None:
    _log.warning("roles.stopping", waiting_for="the embedded PostgreSQL")


async def serve_metrics(opilio: Opilio, stop: asyncio.Event) -> None:
    """Metrics and health on their own port; if it is taken, a warning is logged and the roles run without."""
    from opilio.runtime.http_server import serve_app  # noqa: PLC0415

    port = opilio.settings.metrics_port
    if holder := holder_of_port(port):
        _log.warning(
            "metrics.port_taken", port=port, holder=holder, remedy="set OPILIO_METRICS_PORT, 0 is off"
        )
        await stop.wait()
        return
    await serve_app(_metrics_app(opilio), opilio.settings, port, stop)


def _metrics_app(opilio: Opilio) -> Any:
    readiness = Readiness(opilio.database)

    async def answer(path: str) -> tuple[int, bytes, bytes]:
        if path == "/metrics":
            body = await metrics_page.render(opilio.insights, bare_names=opilio.settings.metrics_bare_names)
            return 200, b"text/plain; version=0.0.4; charset=utf-8", body
        if path == "/healthz":
            return 200, b"application/json", b'{"status":"ok"}'
        if path == "/readyz":
            fault = await readiness.fault()
            body = json.dumps(
                {"status": "not ready", "reason": fault} if fault else {"status": "ready"}
            ).encode()
            return 503 if fault else 200, b"application/json", body
        return 404, b"text/plain; charset=utf-8", b"Not found. There are /metrics, /healthz and /readyz.\n"

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        status, media_type, body = await answer(scope["path"])
        headers = [(b"content-type", media_type)]
        if status == 503:
            headers.append((b"retry-after", b"2"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app


async def _lifespan(receive: Any, send: Any) -> None:
    for step in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{step}.complete"})
