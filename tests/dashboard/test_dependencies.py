"""A deployment whose broker, Redis and object storage are down: every page says so, and none waits for it."""

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from opilio.insights.dashboard import Watched
from opilio.runtime.bootstrap import Opilio
from opilio.runtime.dependencies import Dependency, DependencyWatch, dependencies
from opilio.runtime.service_faults import storage_fault
from opilio.runtime.settings import Settings, load_settings
from opilio.web.dashboard.live import Live
from tests.dashboard.conftest import free_port

PORT = free_port()


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    return load_settings(
        data_dir=tmp_path,
        database_url=database_url,
        amqp_url="amqp://guest:guest@127.0.0.1:1/",
        redis_url=f"redis://127.0.0.1:{PORT}",
        blobs_url="s3://bucket?endpoint=http://127.0.0.1:1",
    )


async def test_what_is_away_is_looked_for_once_for_all(opilio: Opilio, settings: Settings) -> None:
    watch = DependencyWatch(dependencies(settings))
    await watch.check()
    assert watch.away().keys() == {"broker", "redis", "storage"}
    live = Live(opilio.figures, watch, tick=0.01)
    with live.watching(Watched()) as one, live.watching(Watched()) as two:
        for viewer in (one, two, one, two):
            assert (await viewer.next())[0].away.keys() == {"broker", "redis", "storage"}
    assert watch.rounds == 1
    await live.close()


async def test_embedded_nothing_is_looked_for(database_url: str, tmp_path: Path) -> None:
    watch = DependencyWatch(dependencies(load_settings(data_dir=tmp_path, database_url=database_url)))
    assert watch.away() == {}
    assert watch.rounds == 0


async def test_one_that_hangs_delays_no_look(opilio: Opilio) -> None:
    async def never() -> None:
        await asyncio.sleep(60)

    broker = Dependency("broker", "RabbitMQ", "amqp://x", "X", never, storage_fault)
    live = Live(opilio.figures, DependencyWatch([broker]), tick=0.01)
    with live.watching(Watched()) as viewer:
        async with asyncio.timeout(5):
            assert (await viewer.next())[0].system_status is not None
    await live.close()


async def test_the_marker_says_what_is_away_and_what_is_back(admin: Page) -> None:
    marker, told = admin.locator("#live-marker"), admin.locator("#away")
    await expect(marker).to_have_text("Unavailable: RabbitMQ, Redis, object storage", timeout=30_000)
    await expect(told).to_contain_text("RabbitMQ is unavailable")
    redis = await asyncio.start_server(answer_as_redis, "127.0.0.1", PORT)
    await expect(marker).to_have_text("Unavailable: RabbitMQ, object storage", timeout=30_000)
    await expect(told).not_to_contain_text("Redis")
    redis.close()


async def answer_as_redis(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Enough of one to be taken for well: every command gets an answer."""
    while line := await reader.readline():
        if line.startswith(b"*"):
            writer.write(b"+PONG\r\n")
    writer.close()
