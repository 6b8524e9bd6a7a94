"""The bots in examples/ are real: each is run against the fake control plane and a site."""

import asyncio
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from opilio.bot.reference.find_chromium import required_browser
from opilio.net.loopback_server import Reply
from tests.bot.testkit import Site

EXAMPLES = Path(__file__).parents[2] / "examples"
DRAWN = """<body><script>document.body.innerHTML = '<h1>Drawn</h1><b class="price">99.000 \\u20ab</b>'</script></body>"""


def environment(server: str, token: str) -> dict[str, str]:
    return {**os.environ, "OPILIO_SERVER": server, "OPILIO_BOT_TOKEN": token}


async def run_until_settled(plane, server: str, *command: str) -> None:
    process = await asyncio.create_subprocess_exec(*command, env=environment(server, plane.token("example")))
    try:
        await plane.settled(60)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 30) == 0
    finally:
        if process.returncode is None:
            process.kill()


@pytest.mark.parametrize(
    "name", ["httpx2_bot.py", "node_bot.mjs", "playwright_bot.py", "scrapy_spider.py", "shell_bot.sh"]
)
def test_they_are_short(name):
    assert len((EXAMPLES / name).read_text().splitlines()) <= 45


async def test_httpx2(plane):
    async with Site().serving() as site, plane.serving() as server:
        good, gone = plane.add(site.html("/p")), plane.add(site.address + "/gone")
        await run_until_settled(plane, server, sys.executable, str(EXAMPLES / "httpx2_bot.py"))
    assert bytes(plane.job(good).outcome.price) == b"49.90"
    assert plane.job(gone).outcome.error_code == "CONTENT_NOT_FOUND"


async def test_node(plane, monkeypatch):
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node")
    monkeypatch.setenv("OPILIO_BOT_ID", "example")
    async with Site().serving() as site, plane.serving() as server:
        good, gone = plane.add(site.html("/p")), plane.add(site.address + "/gone")
        empty = plane.add(site.html("/empty", "<h1>nothing</h1>"), max_retries=0)
        await run_until_settled(plane, server, node, str(EXAMPLES / "node_bot.mjs"))
    assert (bytes(plane.job(good).outcome.price), plane.job(good).outcome.title) == (b'"49.90"', "Lamp")
    assert plane.job(gone).outcome.error_code == "CONTENT_NOT_FOUND"
    assert plane.job(empty).outcome.error_code == "PARSE_ERROR"


async def test_playwright(plane, monkeypatch):
    monkeypatch.setenv("CHROMIUM", required_browser())
    async with Site().serving() as site, plane.serving() as server:
        job = plane.add(site.html("/p", DRAWN), queue="js", rule_set={"price": ".price"})
        await run_until_settled(plane, server, sys.executable, str(EXAMPLES / "playwright_bot.py"))
    assert (bytes(plane.job(job).outcome.price), plane.job(job).outcome.currency) == (b"99000", "VND")


async def test_scrapy(plane):
    async with Site().serving() as site, plane.serving() as server:
        good, gone = plane.add(site.html("/p")), plane.add(site.address + "/gone")
        empty = plane.add(site.html("/empty", "<h1>nothing</h1>"))
        site.pages["/robots.txt"] = Reply(404)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "scrapy",
            "runspider",
            "--nolog",
            str(EXAMPLES / "scrapy_spider.py"),
            env=environment(server, plane.token("example")),
        )
        assert await asyncio.wait_for(process.wait(), 60) == 0
    assert bytes(plane.job(good).outcome.price) == b"49.90"
    assert plane.job(gone).outcome.error_code == "CONTENT_NOT_FOUND"
    assert plane.job(empty).outcome.error_code == "PARSE_ERROR"
