"""Serves ASGI applications with uvicorn: the API role, and the metrics of other roles."""

import asyncio
import resource
import socket

from opilio.errors import Unavailable
from opilio.logs import get_logger
from opilio.runtime.http_connection import HttpServer, ServerConfig, ShortWay
from opilio.runtime.http_edge import Asgi, EdgeLimits, HttpEdge
from opilio.runtime.settings import Settings

_log = get_logger(__name__)
_BACKLOG = 1024
# What a process opens besides connections of clients: database, files, event loop.
_RESERVED_FILES = 256
CANCEL_SECONDS = 2.0


async def serve_app(
    app: Asgi, settings: Settings, port: int, stop: asyncio.Event, short_way: ShortWay | None = None
) -> None:
    """Serves until told to stop, then lets open requests end for the grace time."""
    host, connections = settings.host, _allowed_connections(settings.max_connections)
    edge = HttpEdge(app, _limits(settings, connections))
    config = ServerConfig(
        edge, short_way, connections=connections, head_seconds=settings.idle_connection_seconds
    )
    server = HttpServer(config)
    serving = asyncio.create_task(server.serve([await _listening(host, port)]))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not stopping.done():
        stopping.cancel()
        await serving
        raise Unavailable(f"The HTTP server on {host}:{port} stopped unexpectedly; see its log.")
    server.should_exit = True
    await asyncio.wait({serving}, timeout=settings.shutdown_grace_seconds)
    edge.cancel_open_requests()
    await asyncio.wait({serving}, timeout=CANCEL_SECONDS)
    if not serving.done():
        _log.warning("server.requests_cancelled", host=host, port=port)
        serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


async def _listening(host: str, port: int) -> socket.socket:
    """Several processes of one API listen on one port together."""
    loop = asyncio.get_running_loop()
    (family, _, _, _, address), *_ = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return socket.create_server(address, family=family, backlog=_BACKLOG, reuse_port=True)


def _limits(settings: Settings, connections: int) -> EdgeLimits:
    return EdgeLimits(
        requests=connections,
        body_bytes=settings.max_body_mb * 2**20 * 4,
        body_idle_seconds=settings.body_timeout_seconds,
        body_seconds=settings.body_timeout_seconds * 10,
    )


def _allowed_connections(wanted: int) -> int:
    """As many as wanted, or as the limit on open files permits, which is raised first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft = raised
    if soft != resource.RLIM_INFINITY and soft < needed:
        _log.warning("server.few_open_files", limit=soft, remedy="raise `ulimit -n`")
        return max(64, soft - _RESERVED_FILES)
    return wanted
