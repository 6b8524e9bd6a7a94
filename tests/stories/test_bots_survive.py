"""Bots and servers are killed in the middle; every job finishes."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from opilio.contracts.policies import PolicyPatch
from opilio.crawl.policies import Draft
from tests.web.running import Server

JOBS = 60


@pytest.fixture
async def server(database_url, tmp_path) -> AsyncIterator[Server]:
    running = await asyncio.to_thread(Server(database_url, tmp_path).start)
    yield running
    await asyncio.to_thread(running.stop)


@asynccontextmanager
async def sweeping(opilio) -> AsyncIterator[None]:
    """The scheduler's part: expired locks go back to the queue."""

    async def sweep() -> None:
        while True:
            await opilio.lock_expiry.run_once()
            await asyncio.sleep(0.2)

    task = asyncio.create_task(sweep())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def start_bot(server: Server, token: str, nap: float) -> subprocess.Popen[bytes]:
    script = Path(__file__).with_name("napping_bot.py")
    return subprocess.Popen([sys.executable, str(script), server.url, token, str(nap)])


async def make_jobs(opilio, timeout_minutes: float) -> None:
    patch = PolicyPatch(timeout_minutes=timeout_minutes, retry_backoff_minutes=0.001)
    await opilio.policies.import_drafts([Draft(n, f"https://shop.example/{n}", patch) for n in range(JOBS)])
    await opilio.scheduler.create_due()


async def until_done(opilio, wanted: int) -> None:
    async with asyncio.timeout(60):
        while (await opilio.insights.stats()).jobs["done"] < wanted:
            await asyncio.sleep(0.1)


async def test_the_jobs_of_a_bot_that_was_killed_come_back_and_finish(opilio, server) -> None:
    _, token = await opilio.credentials.new_bot_token("bot-1")
    await make_jobs(opilio, timeout_minutes=0.03)
    doomed = start_bot(server, token, nap=60)
    async with asyncio.timeout(30):
        while (await opilio.insights.stats()).jobs["locked"] == 0:
            await asyncio.sleep(0.05)
    doomed.kill()
    doomed.wait()
    heir = start_bot(server, token, nap=0)
    try:
        async with sweeping(opilio):
            await until_done(opilio, JOBS)
    finally:
        heir.terminate()
        assert heir.wait(20) == 0
    assert len((await opilio.insights.results(limit=500)).items) == JOBS


async def test_a_bot_goes_on_by_itself_when_the_server_comes_back(opilio, server) -> None:
    _, token = await opilio.credentials.new_bot_token("bot-1")
    await make_jobs(opilio, timeout_minutes=0.1)
    bot = start_bot(server, token, nap=0.2)
    try:
        async with sweeping(opilio):
            await until_done(opilio, 1)
            server.kill()
            await asyncio.to_thread(server.start)
            await until_done(opilio, JOBS)
        assert bot.poll() is None
    finally:
        bot.terminate()
        assert bot.wait(20) == 0
    assert len((await opilio.insights.results(limit=500)).items) == JOBS
