"""The HTTP face over a fresh database, spoken to in-process."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from opilio.runtime.bootstrap import Opilio
from opilio.web.app import create_app, serve_beside


@dataclass
class Caller:
    """Somebody with a token, or nobody."""

    http: httpx2.AsyncClient
    token: str | None = None

    async def call(self, method: str, path: str, body: Any = None, **extra: Any) -> httpx2.Response:
        headers = {"authorization": f"Bearer {self.token}"} if self.token else {}
        headers |= extra.pop("headers", {})
        if body is not None:
            extra["json"] = body
        return await self.http.request(method, path, headers=headers, **extra)

    async def ok(self, method: str, path: str, body: Any = None, status: int = 200, **extra: Any) -> Any:
        answer = await self.call(method, path, body, **extra)
        assert answer.status_code == status, answer.text
        assert answer.json()["success"] is True
        return answer.json()["data"]

    async def refused(
        self, code: str, status: int, method: str, path: str, body: Any = None, **extra: Any
    ) -> Any:
        answer = await self.call(method, path, body, **extra)
        assert (answer.status_code, answer.json()["success"]) == (status, False), answer.text
        assert answer.json()["error"]["code"] == code, answer.text
        assert answer.json()["error"]["message"]
        return answer.json()["error"]


@dataclass
class Site:
    """The server, and who may call it."""

    opilio: Opilio
    http: httpx2.AsyncClient
    admin: Caller
    writer: Caller
    reader: Caller
    nobody: Caller

    async def bot(self, bot_id: str = "bot-1") -> Caller:
        _, token = await self.opilio.credentials.new_bot_token(bot_id)
        return Caller(self.http, token)

    async def policy(self, url: str = "https://shop.example/1", **fields: Any) -> Any:
        return await self.writer.ok("POST", "/api/v1/policies", {"url": url} | fields, status=201)

    async def locked(self, bot: Caller, bot_id: str = "bot-1", **fields: Any) -> Any:
        """A job of a new policy, pulled by a bot."""
        await self.policy(**fields)
        await self.opilio.scheduler.create_due()
        return (await bot.ok("POST", "/api/crawl/pull/", {"bot_id": bot_id, "max_jobs": 1}))["jobs"][0]


@pytest.fixture
async def site(opilio: Opilio) -> AsyncIterator[Site]:
    app = create_app(opilio)
    transport = httpx2.ASGITransport(app=app)
    async with (
        serve_beside(app, opilio),
        httpx2.AsyncClient(transport=transport, base_url="http://opilio.test") as http,
    ):
        keys = {
            scope: (await opilio.credentials.new_key(scope, scope))[1] for scope in ("admin", "write", "read")
        }
        yield Site(
            opilio,
            http,
            admin=Caller(http, keys["admin"]),
            writer=Caller(http, keys["write"]),
            reader=Caller(http, keys["read"]),
            nobody=Caller(http),
        )
