import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis

from components.fixtures import rabbitmq, rabbitmq_url, redis_server, redis_url, s3  # noqa: F401
from opilio.adapters.postgres import Database
from opilio.collector.postgres_state import PostgresState
from opilio.collector.redis_state import RedisState
from opilio.collector.state import StateStore


@pytest.fixture(params=["postgres", "redis"])
async def state(request: pytest.FixtureRequest, database: Database) -> AsyncIterator[StateStore]:
    """The same promises, kept by both stores."""
    store: Any
    if request.param == "postgres":
        store = PostgresState(database)
    else:
        store = RedisState.connect(await clean_redis(request.getfixturevalue("redis_url")))
    yield store
    await store.close()


async def clean_redis(url: str) -> str:
    client: Any = Redis.from_url(url)
    await client.flushdb()
    await client.aclose()
    return url


async def until(condition: Any, seconds: float = 20) -> Any:
    """Waits for something that another process or task brings about; answers what it found."""
    async with asyncio.timeout(seconds):
        while not (found := await condition()):
            await asyncio.sleep(0.02)
    return found
