"""Behind a reverse proxy, through a real server."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from opilio import audit
from tests.web.running import Server

PASSWORD = "correct horse battery"


@pytest.fixture
def server(database_url: str, tmp_path: Path) -> Iterator[Server]:
    server = Server(database_url, tmp_path)
    yield server
    if server.process is not None:
        server.kill()


async def test_a_trusted_proxy_names_client_and_scheme_under_a_path(opilio, server) -> None:
    await asyncio.to_thread(
        server.start, trusted_proxies="127.0.0.1/32", public_url="https://example.com/opilio"
    )
    secret = await opilio.operators.invite()
    headers = {"x-forwarded-for": "203.0.113.9", "x-forwarded-proto": "https"}
    async with httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=30) as http:
        form = {"password": PASSWORD, "again": PASSWORD}
        login = await http.post(f"/opilio/login/{secret}", data=form)
        assert (login.status_code, login.headers["location"]) == (303, "/opilio/")
        assert "Secure" in login.headers["set-cookie"]
        assert login.headers["strict-transport-security"].startswith("max-age=")
        cookie = {"cookie": login.headers["set-cookie"].partition(";")[0]}
        for path in ("/opilio/", "/"):  # a proxy may remove the path
            page = await http.get(path, headers=cookie)
            assert page.status_code == 200
            assert 'href="/opilio/jobs"' in page.text
            assert 'href="/jobs"' not in page.text
    rows = await audit.entries(opilio.database, None, 10)
    assert {row["details"].get("address") for row in rows if row["action"] == "login"} == {"203.0.113.9"}


async def test_headers_of_others_are_not_believed(opilio, server) -> None:
    await asyncio.to_thread(server.start)
    secret = await opilio.operators.invite()
    headers = {"x-forwarded-for": "203.0.113.9", "x-forwarded-proto": "https"}
    async with httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=30) as http:
        login = await http.post(f"/login/{secret}", data={"password": PASSWORD, "again": PASSWORD})
        assert "Secure" not in login.headers["set-cookie"]
        assert "strict-transport-security" not in login.headers
    rows = await audit.entries(opilio.database, None, 10)
    assert {row["details"].get("address") for row in rows if row["action"] == "login"} == {"127.0.0.1"}
