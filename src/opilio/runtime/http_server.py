"""Serves ASGI applications by Granian: within this process, or from several worker processes."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

import structlog
from granian import Granian
from granian.constants import Interfaces, Loops
from granian.server.embed import Server

from opilio.errors import Unavailable
from opilio.runtime.bootstrap import Opilio
from opilio.runtime.processes import PARENT, die_with_parent
from opilio.runtime.settings import Settings

_log = structlog.get_logger(__name__)
_APP = "opilio.web.app"  # loaded late: only those who serve it need it
_BACKLOG = 1024
# A bot may hang on for half a minute in a long poll: whoever stops does not wait for it.
_PATIENCE = 2.0
_LAST_PATIENCE = 2.0

Asgi = Callable[[Any, Any, Any], Awaitable[None]]


async def serve(opilio: Opilio, stop: asyncio.Event) -> None:
    """The API role."""
    settings = opilio.settings
    app = import_module(_APP).create_app(opilio)
    await serve_app(app, settings.host, settings.port, stop)


async def serve_app(app: Asgi, host: str, port: int, stop: asyncio.Event) -> None:
    """Serves until told to stop, then lets requests end for a moment."""
    requests = Requests(app)
    server = Server(
        requests,
        address=host,
        port=port,
        interface=Interfaces.ASGI,
        websockets=False,
        backlog=_BACKLOG,
        log_enabled=False,
    )
    serving = asyncio.create_task(server.serve())
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not stopping.done():
        stopping.cancel()
        await serving
        raise Unavailable(f"The server on {host}:{port} stopped by itself; the log tells more.")
    server.stop()  # type: ignore[no-untyped-call]
    await asyncio.wait({serving}, timeout=_PATIENCE)
    requests.abandon()
    await asyncio.wait({serving}, timeout=_LAST_PATIENCE)
    if not serving.done():
        _log.warning("server.abandoned", host=host, port=port)
        serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


class Requests:
    """Knows the requests under way, so that a server which stops can end them."""

    def __init__(self, app: Asgi) -> None:
        self._app = app
        self._under_way: set[asyncio.Task[Any]] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        task = asyncio.current_task()
        if scope["type"] != "http" or task is None:
            await self._app(scope, receive, send)
            return
        self._under_way.add(task)
        try:
            await self._app(scope, receive, send)
        finally:
            self._under_way.discard(task)

    def abandon(self) -> None:
        for task in self._under_way:
            task.cancel()


def serve_workers(settings: Settings) -> None:
    """The API from several processes; blocks until stopped."""
    os.environ[PARENT] = str(os.getpid())
    Granian(
        "opilio.runtime.http_server:worker",
        factory=True,
        address=settings.host,
        port=settings.port,
        interface=Interfaces.ASGI,
        loop=Loops.uvloop,
        workers=settings.api_workers,
        workers_kill_timeout=int(_PATIENCE + _LAST_PATIENCE),
        respawn_failed_workers=True,
        websockets=False,
        backlog=_BACKLOG,
        log_enabled=False,
    ).serve()


def worker() -> Asgi:
    """What each of them loads."""
    die_with_parent()
    app: Asgi = import_module(_APP).from_environment()
    return app
