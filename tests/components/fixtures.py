"""Fixtures that start a real server once a session: import them into a conftest."""

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import aio_pika
import pytest
from aio_pika.exceptions import ChannelNotFoundEntity

from opilio.contracts.topology import topology
from tests.components.servers import S3, RabbitMQ, Redis, Server, program


def _running(kind: type[Server], name: str) -> Iterator[Server]:
    if program(name) is None:
        message = f"{name} is not installed: run tests/components/install.sh"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    server = kind()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[Server]:
    yield from _running(RabbitMQ, "rabbitmq-server")


@pytest.fixture
def own_rabbitmq() -> Iterator[Server]:
    """A broker that one test may stop and kill."""
    yield from _running(RabbitMQ, "rabbitmq-server")


@pytest.fixture
def rabbitmq_url(rabbitmq: RabbitMQ) -> str:
    """The broker of all tests, with nothing of an earlier test in its queues."""
    with ThreadPoolExecutor(1) as thread:  # this one may run a test's loop already
        thread.submit(asyncio.run, _empty(rabbitmq.url)).result()
    return rabbitmq.url


async def _empty(url: str) -> None:
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        under = await channel.get_underlay_channel()
        for queue in topology().queues:
            parked = [queue.parking_queue(name) for name in queue.parking]
            for name in (queue.name, queue.dead_letter_queue, *parked):
                try:
                    await under.queue_purge(name)
                except ChannelNotFoundEntity:  # no test has declared it yet
                    channel = await connection.channel()
                    under = await channel.get_underlay_channel()
            for name in queue.delay_queues:
                await under.queue_delete(name)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Server]:
    yield from _running(Redis, "redis-server")


@pytest.fixture(scope="session")
def redis_url(redis_server: Redis) -> str:
    return redis_server.url


@pytest.fixture(scope="session")
def s3() -> Iterator[Server]:
    yield from _running(S3, "rclone")
