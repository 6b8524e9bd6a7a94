from datetime import UTC, datetime

import pytest

from opilio.adapters.buckets import Buckets
from opilio.analytics.processing import BatchProcessor
from opilio.analytics.store import BatchStore


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
