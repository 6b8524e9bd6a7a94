"""Opilio behind the reverse proxies of deploy/proxy, with TLS; nginx and Caddy run for real."""

import re
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from httpx2 import AsyncClient
from playwright.async_api import Browser, expect

from opilio.contracts.policies import PolicyInput
from opilio.runtime.bootstrap import Opilio
from tests.components.servers import Server, free_port
from tests.dashboard.conftest import log_in, serving, until_ready
from tests.deploy.programs import DEPLOY, need, output


class Nginx(Server):
    """The project's configuration, with this test's ports and certificate."""

    name = "nginx"

    def __init__(self, upstream: str) -> None:
        super().__init__()
        self.plain_port = free_port()
        key, certificate = self.folder / "key.pem", self.folder / "cert.pem"
        output(
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=127.0.0.1",
            ),
            *("-keyout", key, "-out", certificate),
        )
        site = (DEPLOY / "proxy/nginx.conf").read_text()
        for ours, here in (
            ("server 127.0.0.1:8000", f"server {upstream}"),
            ("listen 80;", f"listen 127.0.0.1:{self.plain_port};"),
            ("listen 443 ssl", f"listen 127.0.0.1:{self.port} ssl"),
            ("crawl.example.com", "127.0.0.1"),
            ("/etc/ssl/opilio/fullchain.pem", str(certificate)),
            ("/etc/ssl/opilio/privkey.pem", str(key)),
        ):
            assert ours in site, ours
            site = site.replace(ours, here)
        scratch = "".join(
            f"{kind}_temp_path {self.folder}/{kind};\n"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        (self.folder / "nginx.conf").write_text(
            f"daemon off;\nuser root;\npid {self.folder}/pid;\nerror_log {self.folder}/error.log;\nevents {{}}\n"
            f"http {{\naccess_log off;\n{scratch}{site}\n}}\n"
        )

    def command(self) -> list[str]:
        return [need("nginx"), "-e", f"{self.folder}/error.log", "-c", f"{self.folder}/nginx.conf"]


@pytest.fixture
async def site(opilio: Opilio) -> AsyncIterator[str]:
    async with serving(opilio, trusted_proxies="127.0.0.1") as address:
        yield address


@pytest.fixture
def nginx(site: str) -> Iterator[Nginx]:
    server = Nginx(urlsplit(site).netloc)
    server.start()
    yield server
    server.remove()


async def test_a_person_works_behind_nginx(nginx: Nginx, browser: Browser, opilio: Opilio):
    address = f"https://127.0.0.1:{nginx.port}"
    context = await browser.new_context(base_url=address, ignore_https_errors=True, locale="en-GB")
    page = await context.new_page()
    await log_in(page, opilio, "admin", "admin")
    assert page.url == f"{address}/"
    await expect(page.locator("#live-marker")).to_have_attribute("data-state", "live")
    cookies = await context.cookies()
    assert cookies
    assert all(cookie["secure"] for cookie in cookies if cookie["httpOnly"])

    async with AsyncClient(verify=False, cookies={c["name"]: c["value"] for c in cookies}) as client:
        began = time.monotonic()
        async with client.stream("GET", f"{address}/live") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            async for line in stream.aiter_lines():
                assert line.startswith("event: tick")
                break
        assert time.monotonic() - began < 10, "the proxy held the stream back"
    await context.close()


async def test_bots_and_programs_work_behind_nginx(nginx: Nginx, opilio: Opilio):
    address = f"https://127.0.0.1:{nginx.port}"
    _, token = await opilio.credentials.new_bot_token("b")
    await opilio.policies.create(PolicyInput(url="https://a.example/"))
    await opilio.scheduler.create_due()
    headers = {"authorization": f"Bearer {token}"}
    async with AsyncClient(verify=False, headers=headers, timeout=60) as client:
        body = {"bot_id": "b", "wait_seconds": 2}
        first = (await client.post(f"{address}/api/crawl/pull/", json=body)).json()
        assert first["data"]["count"] == 1
        second = await client.post(f"{address}/api/crawl/pull/", json=body)  # a long poll
        assert second.json()["data"]["count"] == 0
        assert (await client.get(f"{address}/metrics")).status_code == 404
        moved = await client.get(f"http://127.0.0.1:{nginx.plain_port}/jobs")
        assert (moved.status_code, moved.headers["location"]) == (301, "https://127.0.0.1/jobs")
        tries = [(await client.get(f"{address}/login")).status_code for _ in range(25)]
        assert tries[0] == 200
        assert 429 in tries


async def test_caddy_takes_its_configuration_and_forwards(site: str):
    caddy = need("caddy")
    text = (DEPLOY / "proxy/Caddyfile").read_text()
    output(caddy, "validate", "--adapter", "caddyfile", "--config", DEPLOY / "proxy/Caddyfile")
    port = free_port()
    text = text.replace("crawl.example.com", f"http://127.0.0.1:{port}").replace(
        "127.0.0.1:8000", urlsplit(site).netloc
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "Caddyfile"
        file.write_text("{\n\tadmin off\n}\n" + re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
        words = [caddy, "run", "--adapter", "caddyfile", "--config", str(file)]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                async with AsyncClient() as client:
                    await until_ready(client, f"http://127.0.0.1:{port}")
                    assert (await client.get(f"http://127.0.0.1:{port}/metrics")).status_code == 404
                    assert "Opilio" in (await client.get(f"http://127.0.0.1:{port}/login")).text
            finally:
                process.terminate()
