"""The API role: HTTP for bots, operators and programs, in this process or in several."""

import asyncio
import sys
from importlib import import_module
from typing import Any

from opilio.runtime.bootstrap import Opilio
from opilio.runtime.http_server import CANCEL_SECONDS, serve_app
from opilio.runtime.processes import SHARED_PORT
from opilio.runtime.supervisor import Command, Supervisor

# Loaded late: a process that supervises workers needs neither.
_APP, _PROXY = "opilio.web.app", "opilio.web.proxy"


_built: list[Any] = []


def load(api_workers: int) -> None:
    """Loads and builds what `serve` will need, before there is a database."""
    if api_workers == 1:
        _built.append(import_module(_APP).build_app())


async def serve(opilio: Opilio, stop: asyncio.Event) -> None:
    settings = opilio.settings
    if settings.api_processes > 1:
        await _serve_workers(opilio, stop)
        return
    web = import_module(_APP)
    app = web.use(_built.pop() if _built else web.build_app(), opilio)
    stopping = asyncio.create_task(_end_waiting_requests(app, opilio, stop))
    try:
        behind = import_module(_PROXY).BehindProxy(
            app, public_url=settings.public_url, trusted=settings.trusted_proxy_list
        )
        await serve_app(behind, settings, settings.port, stop, web.short_way(opilio, behind))
    finally:
        stopping.cancel()


async def _end_waiting_requests(app: Any, opilio: Opilio, stop: asyncio.Event) -> None:
    """On shutdown waiting pulls are answered without jobs, and event streams end."""
    await stop.wait()
    opilio.dispatcher.stop_waiting()
    app.state.live.end_streams()


async def _serve_workers(opilio: Opilio, stop: asyncio.Event) -> None:
    """The API from several processes that share a port and their counters; this one supervises them."""
    settings = opilio.settings
    argv = (sys.executable, "-m", "opilio", "run", "api")
    env = {
        "OPILIO_DATABASE_URL": opilio.database.url,
        "OPILIO_HOST": settings.host,
        "OPILIO_PORT": str(settings.port),
        "OPILIO_API_WORKERS": "1",
        "OPILIO_METRICS_PORT": "0",
        "OPILIO_LOG_FORMAT": "json" if settings.log_format == "auto" else settings.log_format,
        SHARED_PORT: "1",
    }
    supervisor = Supervisor(grace_seconds=settings.shutdown_grace_seconds + CANCEL_SECONDS)
    for number in range(1, settings.api_processes + 1):
        supervisor.start(Command(f"api-{number}", argv, env))
    try:
        await stop.wait()
    finally:
        await supervisor.stop()
