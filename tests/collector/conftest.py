import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
import structlog

from opilio.adapters.postgres import Database
from opilio.collector.state.postgres import PostgresState
from opilio.collector.state.protocol import StateStore
from opilio.collector.state.redis import RedisState
from tests.collector.world import World, clean_redis, running
from tests.components.fixtures import own_rabbitmq, rabbitmq, rabbitmq_url, redis_server, redis_url, s3  # noqa: F401


@pytest.fixture(autouse=True, scope="session")
def logs_on_stderr() -> None:
    """Background loops log in the process in which commands print."""
    structlog.reset_defaults()  # a command that ran in this process before may have left processors for other loggers
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))


@pytest.fixture(params=["postgres", "redis"])
async def state(request: pytest.FixtureRequest, database: Database) -> AsyncIterator[StateStore]:
    """The same promises, kept by both stores."""
    store: Any
    if request.param == "postgres":
        store = PostgresState(database)
    else:
        store = RedisState.connect(await clean_redis(request.getfixturevalue("redis_url")), database)
    yield store
    await store.close()


@pytest.fixture(params=["embedded", "real"])
async def world(request: pytest.FixtureRequest, database: Database) -> AsyncIterator[World]:
    """The same flow on the local bus with PostgreSQL, and on RabbitMQ with Redis."""
    async with running(request.param, database, request) as world:
        yield world
