"""A receiver of webhooks on loopback that answers as configured and keeps what it received."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from standardwebhooks import Webhook


@dataclass(frozen=True)
class Got:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    def verified_by(self, secret: str):
        return Webhook(secret).verify(self.body, self.headers)


@dataclass
class Reply:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"ok"
    delay: float = 0
    cut: bool = False  # take the request and close the connection without a word


class Receiver:
    def __init__(self) -> None:
        self.got: list[Got] = []
        self.replies: deque[Reply] = deque()
        self.usual: Reply | Callable[[Got], Reply] = Reply()
        self.at_once = 0
        self.most_at_once = 0
        self._arrived = asyncio.Condition()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    def url(self, path: str = "/hook") -> str:
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}{path}"

    async def arrived(self, count: int, seconds: float = 15) -> list[Got]:
        async with asyncio.timeout(seconds), self._arrived:
            await self._arrived.wait_for(lambda: len(self.got) >= count)
        return self.got

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers["content-length"]))
        got = Got(head[0].split()[1], headers, body)
        reply = (
            self.replies.popleft()
            if self.replies
            else self.usual(got)
            if callable(self.usual)
            else self.usual
        )
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        if reply.delay:
            await asyncio.sleep(reply.delay)
        self.at_once -= 1
        async with self._arrived:
            self.got.append(got)
            self._arrived.notify_all()
        if reply.cut:
            return False
        lines = [f"HTTP/1.1 {reply.status} X", f"content-length: {len(reply.body)}"]
        lines += [f"{name}: {value}" for name, value in reply.headers.items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + reply.body)
        await writer.drain()
        return True
