"""Runs one or more roles in this process."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import Any, TypeAlias

import structlog

from opilio import metrics
from opilio.runtime import metrics_page
from opilio.runtime.bootstrap import Opilio, open_opilio
from opilio.runtime.processes import holder_of_port, stop_on_signals
from opilio.runtime.roles import ROLES
from opilio.runtime.settings import Settings

Serve: TypeAlias = Callable[[Opilio, asyncio.Event], Awaitable[None]]

_log = structlog.get_logger(__name__)


async def run_roles(settings: Settings, roles: Sequence[str]) -> None:
    """Runs roles in this process until Ctrl-C or SIGTERM; if one fails, all stop and the failure is raised."""
    stop = stop_on_signals()
    async with open_opilio(settings, name=f"opilio {'+'.join(roles)}") as opilio:
        works = [import_module(ROLES[role]).serve for role in roles]
        if settings.metrics_port:
            works.append(serve_metrics)
        for role in roles:
            metrics.ROLE_UP.labels(role).set(1)
        _log.info("roles.started", roles=list(roles))
        await _together(works, opilio, stop)
    _log.info("roles.stopped", roles=list(roles))


async def _together(works: Sequence[Serve], opilio: Opilio, stop: asyncio.Event) -> None:
    async def until_stopped(work: Serve) -> None:
        try:
            await work(opilio, stop)
        finally:
            stop.set()

    done = await asyncio.gather(*(until_stopped(work) for work in works), return_exceptions=True)
    for failure in done:
        if isinstance(failure, BaseException):
            raise failure


async def serve_metrics(opilio: Opilio, stop: asyncio.Event) -> None:
    """`/metrics` on a port of its own; a taken port is said, and costs nothing else."""
    from opilio.runtime.http_server import serve_app  # noqa: PLC0415

    host, port = opilio.settings.host, opilio.settings.metrics_port
    if holder := holder_of_port(port):
        _log.warning(
            "metrics.port_taken", port=port, holder=holder, remedy="set OPILIO_METRICS_PORT, 0 is off"
        )
        await stop.wait()
        return
    await serve_app(_metrics_app(opilio), host, port, stop)


def _metrics_app(opilio: Opilio) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        found = scope["path"] == "/metrics"
        body = await _metrics(opilio) if found else b"metrics are at /metrics\n"
        headers = [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200 if found else 404, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app


async def _metrics(opilio: Opilio) -> bytes:
    return await metrics_page.render(opilio.insights, bare_names=opilio.settings.metrics_bare_names)


async def _lifespan(receive: Any, send: Any) -> None:
    for step in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{step}.complete"})
