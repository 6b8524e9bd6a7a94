import asyncio
from datetime import UTC, datetime

import pytest

from opilio.adapters.buckets import Buckets
from opilio.adapters.postgres import Database, migrate
from opilio.adapters.postgres.embedded import EmbeddedPostgres
from opilio.analytics.processing import BatchProcessor
from opilio.analytics.storing import BatchStore

_TABLES = "outbox, analysed_batch, post_identity, post_analytics, post_comments, crawl_errors"


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory):
    server = EmbeddedPostgres(tmp_path_factory.mktemp("analytics") / "postgres")
    url = server.start()
    asyncio.run(migrate.upgrade(url))
    yield url
    server.stop()


@pytest.fixture
async def database(postgres_url):
    database = await Database.connect(postgres_url)
    async with database.session() as session:
        await session.connection.execute(f"truncate {_TABLES}")
    yield database
    await database.close()


@pytest.fixture
def store(database):
    return BatchStore(database)


@pytest.fixture
def buckets():
    return Buckets("memory://")


@pytest.fixture
def processor(store, buckets):
    return BatchProcessor(store, buckets)


@pytest.fixture
def rows(database):
    async def query(text, *values):
        async with database.session() as session:
            return [dict(row) for row in await session.connection.fetch(text, *values)]

    return query


@pytest.fixture
def now():
    return datetime(2026, 5, 4, 12, tzinfo=UTC)
