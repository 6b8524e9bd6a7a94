"""A connection of the HTTP server: uvicorn's, with bounds on the head of a request, and a short way for those of bots."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from opilio.errors import Unavailable
from opilio.runtime.http_edge import HttpEdge, error_body

_MOST_HEAD_BYTES = 64 * 2**10
_LOOK_EVERY = 10  # ticks of uvicorn, a second


Headers = list[tuple[bytes, bytes]]
Answer = tuple[int, Headers, bytes]


class ShortWay(Protocol):
    """Requests that are answered without the layers of the application, once their bodies are there."""

    def accepts(self, scope: Any) -> bool:
        """Whether a request can go this way, by its head."""

    async def answer(self, scope: Any, receive: Any, body: bytes) -> Answer | None:
        """Status, headers and body; nothing if this request is for the application after all."""


class Connection(HttpToolsProtocol):
    """One connection of one client."""

    config: "ServerConfig"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._head_since: float | None = self.loop.time()

    # ── the head of a request ────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.config.most_connections:
            self._refuse(503, error_body("unavailable", "the server has too many connections; try again"))

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head_since is not None and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > _MOST_HEAD_BYTES:
                most = f"the head of a request has at most {_MOST_HEAD_BYTES} bytes"
                self._refuse(431, error_body("payload_too_large", most))

    def on_headers_complete(self) -> None:
        self._head_bytes, self._head_since = 0, None
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        self._head_since = self.loop.time()
        super().on_response_complete()

    def close_if_silent(self, now: float) -> None:
        """Ends a connection that takes too long to say what it wants."""
        if self._head_since is not None and now - self._head_since > self.config.head_seconds:
            self.transport.close()

    def _refuse(self, status: int, body: bytes) -> None:
        headers = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(
            body
        )
        self.transport.write(STATUS_LINE[status] + headers + body)
        self.transport.close()

    # ── the short way ────────────────────────────────────────────────────────────────────────────

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        short = self.config.short_way
        if short is None or self.config.edge.is_full() or not short.accepts(cycle.scope):
            super()._start_asgi_task(cycle, app)
            return
        task = self.loop.create_task(self._serve(cycle, short, app))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _serve(self, cycle: RequestResponseCycle, short: ShortWay, app: Any) -> None:
        """The task begins after the parser has passed on all that arrived with the head: usually the whole body."""
        answer = None
        if not cycle.more_body:
            answer = await short.answer(cycle.scope, cycle.receive, bytes(cycle.body))
        if answer is None:
            await cycle.run_asgi(app)
        elif not cycle.disconnected:
            self._send(cycle, *answer)

    def _send(self, cycle: RequestResponseCycle, status: int, headers: Headers, body: bytes) -> None:
        if not cycle.keep_alive:
            headers = [*headers, (b"connection", b"close")]
        head = b"".join([b"%b: %b\r\n" % header for header in (*self.server_state.default_headers, *headers)])
        self.transport.write(b"%b%b\r\n%b" % (STATUS_LINE[status], head, body))
        cycle.response_started = cycle.response_complete = True
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()


class ServerConfig(uvicorn.Config):
    """What uvicorn and its connections need to know."""

    def __init__(
        self, edge: HttpEdge, short_way: ShortWay | None, *, connections: int, head_seconds: float
    ) -> None:
        super().__init__(
            edge,
            interface="asgi3",
            lifespan="on",  # an application that cannot start is not served
            http=Connection,
            loop="none",
            ws="none",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=max(1, round(head_seconds)),
        )
        self.edge = edge
        self.short_way = short_way
        self.most_connections = connections
        self.head_seconds = head_seconds


class HttpServer(uvicorn.Server):
    """uvicorn within a process that handles signals itself."""

    def __init__(self, config: ServerConfig) -> None:
        super().__init__(config)
        config.edge.open_requests = self.server_state.tasks

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        except SystemExit:  # uvicorn has logged why, and would end the process
            raise Unavailable("The HTTP server could not start; see the log.") from None

    async def on_tick(self, counter: int) -> bool:
        if counter % _LOOK_EVERY == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                assert isinstance(connection, Connection)
                connection.close_if_silent(now)
        return await super().on_tick(counter)
