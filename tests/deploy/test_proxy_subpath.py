"""Opilio below a path of another site, by the examples of deploy/proxy; nginx and Caddy run for real."""

import re
from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit

import pytest
from httpx2 import AsyncClient
from playwright.async_api import Browser

from opilio.runtime.bootstrap import Opilio
from tests.components.servers import Server, free_port
from tests.dashboard.conftest import serving
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


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
async def site(opilio: Opilio, port: int) -> AsyncIterator[str]:
    public = f"http://127.0.0.1:{port}/opilio"
    async with serving(opilio, trusted_proxies="127.0.0.1", public_url=public) as address:
        yield address


@pytest.fixture
def nginx(site: str, port: int) -> Iterator[str]:
    server = Nginx(urlsplit(site).netloc, port)
    server.start()
    yield f"http://127.0.0.1:{port}"
    server.remove()


async def test_a_person_works_below_a_path(nginx: str, browser: Browser, opilio: Opilio):
    context = await browser.new_context(base_url=f"{nginx}/opilio/", locale="en-GB")
    page = await context.new_page()
    link = await opilio.operators.invite()
    await page.goto(f"{nginx}/opilio/login/{link}")
    assert await page.title()
    await context.close()
    async with AsyncClient() as client:
        assert (await client.get(f"{nginx}/")).text == "the other site"
        assert (await client.get(f"{nginx}/opilio")).headers["location"] == "/opilio/"
        assert (await client.get(f"{nginx}/opilio/metrics")).status_code == 404
        login = await client.get(f"{nginx}/opilio/login")
        assets = re.findall(r'(?:href|src)="(/[^"]+\.(?:css|js)[^"]*)"', login.text)
        assert assets
        for asset in assets:
            assert asset.startswith("/opilio/")
            assert (await client.get(nginx + asset)).status_code == 200
        _, token = await opilio.credentials.new_bot_token("b")
        pulled = await client.post(
            f"{nginx}/opilio/api/crawl/pull/",
            json={"bot_id": "b"},
            headers={"authorization": f"Bearer {token}"},
        )
        assert pulled.json()["success"] is True


def test_caddy_takes_the_configuration():
    file = DEPLOY / "proxy/Caddyfile-subpath"
    output(need("caddy"), "validate", "--adapter", "caddyfile", "--config", file)
