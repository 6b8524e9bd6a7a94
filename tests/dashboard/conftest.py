"""A real server around a fresh database, and a real browser in front of it."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from httpx2 import AsyncClient, TransportError
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from opilio.contracts.policies import PolicyInput
from opilio.runtime.bootstrap import Opilio
from opilio.runtime.roles import api
from opilio.runtime.settings import Settings, load_settings

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
# A refused form is an error to the browser; so is a script of a crawled page that was kept from running.
EXPECTED = ("Failed to load resource: the server responded with a status of 4", "Blocked script execution in")
PASSWORD = "correct horse battery"
# A stream opens after all else of a page, and a busy machine takes its time.
expect.set_options(timeout=20_000)


@pytest.fixture
def settings(database_url: str, tmp_path: Any) -> Settings:
    return load_settings(
        data_dir=tmp_path, database_url=database_url, crawl_allow_private="true", webhook_allow_private="true"
    )


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture
async def site(opilio: Opilio) -> AsyncIterator[str]:
    """The address of a server that runs in this process."""
    async with serving(opilio) as address:
        yield address


@asynccontextmanager
async def serving(opilio: Opilio, **settings: Any) -> AsyncIterator[str]:
    """Serves as `opilio run api` does, with other settings for this server alone."""
    port, stop = free_port(), asyncio.Event()
    changed = opilio.settings.with_values(port=port, host="127.0.0.1", **settings)
    task = asyncio.create_task(api.serve(replace(opilio, settings=changed), stop))
    address = f"http://127.0.0.1:{port}"
    async with AsyncClient() as client:
        await until_ready(client, address)
    yield address
    stop.set()
    await task


async def until_ready(client: AsyncClient, address: str) -> None:
    async with asyncio.timeout(20):
        while True:
            try:
                if (await client.get(f"{address}/readyz")).status_code == 200:
                    return
            except TransportError:  # not listening yet, or slow on a busy machine
                await asyncio.sleep(0.02)


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        await chromium.close()


@pytest.fixture
async def context(browser: Browser, site: str) -> AsyncIterator[BrowserContext]:
    context = await browser.new_context(
        base_url=site, locale="en-GB", viewport={"width": 1400, "height": 1000}
    )
    context.set_default_timeout(10_000)
    yield context
    await context.close()


@pytest.fixture
async def page(context: BrowserContext) -> AsyncIterator[Page]:
    """A page without complaints: no script error, nothing that the policy refused, no request to strangers."""
    page = await context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: faults.append(request.url) if is_foreign(request.url) else None)
    yield page
    await page.close()
    assert [fault for fault in faults if not fault.startswith(EXPECTED)] == []


def is_foreign(url: str) -> bool:
    return not url.startswith(("http://127.0.0.1", "data:", "about:", "blob:"))


@pytest.fixture
async def admin(page: Page, opilio: Opilio) -> Page:
    """Logged in by the one-time link."""
    await log_in(page, opilio, "admin", "admin")
    return page


async def log_in(page: Page, opilio: Opilio, name: str, role: str) -> None:
    secret = await opilio.operators.invite(name, role)
    await page.goto(f"/login/{secret}")
    await page.get_by_label("Password", exact=True).fill(PASSWORD)
    await page.get_by_label("Repeat password").fill(PASSWORD)
    await page.get_by_role("button", name="Set password").click()
    await page.wait_for_url("**/")


@dataclass
class Bot:
    """Speaks to the bots' API as a bot does."""

    client: AsyncClient
    bot_id: str

    async def pull(self, most: int = 10, capabilities: tuple[str, ...] = ("http",)) -> list[dict[str, Any]]:
        body = {"bot_id": self.bot_id, "max_jobs": most, "capabilities": list(capabilities)}
        answer = await self.client.post("/api/crawl/pull/", json=body)
        assert answer.status_code == 200, answer.text
        return list(answer.json()["data"]["jobs"])

    async def submit(self, job: dict[str, Any], **result: Any) -> dict[str, Any]:
        body = {"bot_id": self.bot_id, "job_id": job["job_id"], "lock_token": job["lock_token"], **result}
        answer = await self.client.post("/api/crawl/submit/", json=body)
        return dict(answer.json())


@pytest.fixture
async def bot(opilio: Opilio, site: str) -> AsyncIterator[Bot]:
    _, token = await opilio.credentials.new_bot_token("bot-1")
    async with AsyncClient(base_url=site, headers={"authorization": f"Bearer {token}"}) as client:
        yield Bot(client, "bot-1")


async def add_policy(opilio: Opilio, url: str, **more: Any) -> Any:
    return await opilio.policies.create(PolicyInput(url=url, **more))
