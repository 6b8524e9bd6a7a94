"""Requests of bots get the same answer on the short way, from a server and as an ASGI application, as through the framework."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import httpx2
import pytest
from litestar import Litestar

from opilio.crawl.dispatcher import Dispatcher
from opilio.runtime.bootstrap import Opilio
from opilio.web.app import create_app, serve_beside
from tests.web.running import Server

PULL, BATCH = "/api/crawl/pull", "/api/crawl/submit/batch"
Ways = tuple[httpx2.AsyncClient, httpx2.AsyncClient]
CANNOT_BE_SENT = {"a body that claims to be too large", "a host that is none"}  # by a client that knows HTTP
OF_THE_SERVER = {"x-request-id", "date"}
JSON = {"content-type": "application/json"}


@pytest.fixture
async def ways(opilio: Opilio) -> AsyncIterator[Ways]:
    """The application as it is served, and the framework alone."""
    app = create_app(opilio)
    short, framework = (
        httpx2.ASGITransport(app=entrance) for entrance in (app, partial(Litestar.__call__, app))
    )
    async with (
        serve_beside(app, opilio),
        httpx2.AsyncClient(transport=short, base_url="http://opilio.test") as one,
        httpx2.AsyncClient(transport=framework, base_url="http://opilio.test") as other,
    ):
        yield one, other


CASES: dict[str, tuple[str, str, bytes, dict[str, str]]] = {
    "a pull": ("POST", PULL, b'{"bot_id":"bot-1"}', {}),
    "a slash at the end": ("POST", f"{PULL}/", b'{"bot_id":"bot-1"}', {}),
    "its own request id": ("POST", PULL, b'{"bot_id":"bot-1"}', {"x-request-id": "mine"}),
    "somebody else's id": ("POST", PULL, b'{"bot_id":"bot-2"}', {}),
    "a wrong field": ("POST", PULL, b'{"bot_id":"bot-1","max_jobs":0}', {}),
    "no JSON": ("POST", PULL, b"{", {}),
    "nothing": ("POST", PULL, b"", {}),
    "too many results": (
        "POST",
        BATCH,
        b'{"bot_id":"bot-1","results":[' + b",".join([b"{}"] * 101) + b"]}",
        {},
    ),
    "results that are wrong": ("POST", BATCH, b'{"bot_id":"bot-1","results":[{}, 1]}', {}),
    "a body that claims to be too large": ("POST", PULL, b"{}", {"content-length": str(2**40)}),
    "an unknown token": ("POST", PULL, b"{", {"authorization": "Bearer opb_unknown"}),
    "another scheme": ("POST", PULL, b"{}", {"authorization": "Basic abc"}),
    "no token": ("POST", PULL, b"{}", {"authorization": ""}),
    "a query": ("POST", f"{PULL}?max_jobs=1", b'{"bot_id":"bot-1"}', {}),
    "another method": ("GET", PULL, b"", {}),
    "a host that is none": ("POST", PULL, b'{"bot_id":"bot-1"}', {"host": "a b"}),
}


async def test_both_ways_answer_alike(opilio: Opilio, ways: Ways) -> None:
    _, token = await opilio.credentials.new_bot_token("bot-1")
    _, key = await opilio.credentials.new_key("admin", "admin")
    cases = CASES | {"an API key": ("POST", PULL, b"{", {"authorization": f"Bearer {key}"})}
    for case, (method, path, body, headers) in cases.items():
        sent = JSON | {"authorization": f"Bearer {token}"} | headers
        short, framework = [await way.request(method, path, content=body, headers=sent) for way in ways]
        assert told(short) == told(framework), case
        assert "x-request-id" not in headers or short.headers["x-request-id"] == "mine"


async def test_a_failure_is_explained(opilio: Opilio, ways: Ways, monkeypatch: pytest.MonkeyPatch) -> None:
    _, token = await opilio.credentials.new_bot_token("bot-1")
    sent = JSON | {"authorization": f"Bearer {token}"}
    for failure, status in ((RuntimeError("a fault"), 500), (ConnectionRefusedError("no database"), 503)):
        monkeypatch.setattr(Dispatcher, "pull", AsyncMock(side_effect=failure))
        short, framework = [await way.post(PULL, content=b'{"bot_id":"bot-1"}', headers=sent) for way in ways]
        assert short.status_code == status
        assert told(short) == told(framework)


async def test_a_server_answers_alike(opilio: Opilio, ways: Ways, database_url: str, tmp_path: Path) -> None:
    _, token = await opilio.credentials.new_bot_token("bot-1")
    server = await asyncio.to_thread(Server(database_url, tmp_path).start)
    try:
        async with httpx2.AsyncClient(base_url=server.url) as http:
            for case in CASES.keys() - CANNOT_BE_SENT:
                method, path, body, headers = CASES[case]
                sent = JSON | {"authorization": f"Bearer {token}"} | headers
                served, framework = [
                    await way.request(method, path, content=body, headers=sent) for way in (http, ways[1])
                ]
                assert told(served) == told(framework), case
    finally:
        server.kill()


def told(answer: httpx2.Response) -> tuple[int, Any, dict[str, str]]:
    headers = {name: value for name, value in answer.headers.items() if name not in OF_THE_SERVER}
    return answer.status_code, answer.json(), headers
