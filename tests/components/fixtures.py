"""Fixtures that start a real server once a session: import them into a conftest."""

import os
from collections.abc import Iterator

import pytest

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


@pytest.fixture(scope="session")
def rabbitmq_url(rabbitmq: RabbitMQ) -> str:
    return rabbitmq.url


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Server]:
    yield from _running(Redis, "redis-server")


@pytest.fixture(scope="session")
def redis_url(redis_server: Redis) -> str:
    return redis_server.url


@pytest.fixture(scope="session")
def s3() -> Iterator[Server]:
    yield from _running(S3, "rclone")
