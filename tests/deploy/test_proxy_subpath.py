"""Opilio below a path of another site, by the examples of deploy/proxy; nginx and Caddy run for real."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit

import pytest
from httpx2 import AsyncClient
from playwright.async_api import Browser

from opilio.runtime.bootstrap import Opilio
from opilio.web.login import COOKIE
from tests.components.servers import Server, free_port
from tests.dashboard.conftest import PASSWORD, serving
from tests.deploy.programs import DEPLOY, need, output


class Nginx(Server):
    name = "nginx"

    def __init__(self, upstream: str, port: int) -> None:
        super().__init__()
        self.port = port
        locations = (DEPLOY / "proxy/nginx-subpath.conf").read_text()
        assert "127.0.0.1:8000" in locations
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        scratch = "".join(f"{kind}_temp_path {self.folder}/{kind};\n" for kind in kinds)
        (self.folder / "nginx.conf").write_text(
            f"daemon off;\nuser root;\npid {self.folder}/pid;\nerror_log {self.folder}/error.log;\nevents {{}}\n"
            f"http {{\naccess_log off;\n{scratch}absolute_redirect off;\nserver {{ listen 127.0.0.1:{self.port};\n"
            f"{locations.replace('127.0.0.1:8000', upstream)}\nlocation / {{ return 200 'the other site'; }} }} }}\n"
        )

    def command(self) -> list[str]:
        return [need("nginx"), "-e", f"{self.folder}/error.log", "-c", f"{self.folder}/nginx.conf"]


class Caddy(Server):
    name = "caddy"

    def __init__(self, upstream: str, port: int) -> None:
        super().__init__()
        self.port = port
        site = (DEPLOY / "proxy/Caddyfile-subpath").read_text()
        for ours, here in (
            ("127.0.0.1:8000", upstream),
            (
                "www.example.com {",
                f"http://127.0.0.1:{port} {{\n\thandle {{\n\t\trespond `the other site`\n\t}}",
            ),
        ):
            assert ours in site, ours
            site = site.replace(ours, here)
        (self.folder / "Caddyfile").write_text(f"{{\n\tadmin off\n}}\n{site}")

    def command(self) -> list[str]:
        return [need("caddy"), "run", "--adapter", "caddyfile", "--config", f"{self.folder}/Caddyfile"]

    def environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.folder),
            "XDG_DATA_HOME": str(self.folder),
            "XDG_CONFIG_HOME": str(self.folder),
        }


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
async def site(opilio: Opilio, port: int) -> AsyncIterator[str]:
    public = f"http://127.0.0.1:{port}/opilio"
    async with serving(opilio, trusted_proxies="127.0.0.1", public_url=public) as address:
        yield address


@pytest.fixture(params=[Nginx, Caddy], ids=lambda kind: kind.name)
def proxy(request: pytest.FixtureRequest, site: str, port: int) -> Iterator[str]:
    server = request.param(urlsplit(site).netloc, port)
    server.start()
    yield f"http://127.0.0.1:{port}"
    server.remove()


async def test_a_person_works_below_a_path(proxy: str, browser: Browser, opilio: Opilio):
    context = await browser.new_context(base_url=f"{proxy}/opilio/", locale="en-GB")
    page = await context.new_page()
    link = await opilio.operators.invite()
    await page.goto(f"{proxy}/opilio/login/{link}")
    assert await page.title()
    await context.close()
    async with AsyncClient() as client:
        assert (await client.get(f"{proxy}/")).text == "the other site"
        assert (await client.get(f"{proxy}/opilio")).headers["location"] == "/opilio/"
        assert (await client.get(f"{proxy}/opilio/metrics")).status_code == 404
        login = await client.get(f"{proxy}/opilio/login")
        assets = re.findall(r'(?:href|src)="(/[^"]+\.(?:css|js)[^"]*)"', login.text)
        assert assets
        for asset in assets:
            assert asset.startswith("/opilio/")
            assert (await client.get(proxy + asset)).status_code == 200
        _, token = await opilio.credentials.new_bot_token("b")
        pulled = await client.post(
            f"{proxy}/opilio/api/crawl/pull/",
            json={"bot_id": "b"},
            headers={"authorization": f"Bearer {token}"},
        )
        assert pulled.json()["success"] is True


async def test_events_stream_below_a_path(proxy: str, opilio: Opilio):
    """The first event comes while the stream stays open: no proxy may collect it first."""
    session = await opilio.operators.use_link(await opilio.operators.invite(), PASSWORD)
    async with (
        asyncio.timeout(60),
        AsyncClient(cookies={COOKIE: session}, timeout=60) as client,
        client.stream("GET", f"{proxy}/opilio/live") as stream,
    ):
        assert stream.headers["content-type"].startswith("text/event-stream"), stream.status_code
        assert (await anext(stream.aiter_lines())).startswith("event: tick")


def test_caddy_takes_the_configuration_as_it_ships():
    file = DEPLOY / "proxy/Caddyfile-subpath"
    output(need("caddy"), "validate", "--adapter", "caddyfile", "--config", file)
