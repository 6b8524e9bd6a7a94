from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from components.fixtures import rabbitmq, rabbitmq_url, redis_server, redis_url, s3  # noqa: F401
from delivery.databases import fresh, make_template
from opilio.adapters.postgres import Database
from opilio.adapters.postgres.embedded import EmbeddedPostgres


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = EmbeddedPostgres(Path(tmp_path_factory.mktemp("delivery")) / "postgres")
    yield server.start()
    server.stop()


@pytest.fixture(scope="session")
async def template(postgres_url: str) -> str:
    return await make_template(postgres_url)


@pytest.fixture(scope="module")
async def database_url(postgres_url: str, template: str) -> str:
    return await fresh(postgres_url, template)


@pytest.fixture
async def new_database_url(postgres_url: str, template: str) -> str:
    """For a test that must be alone in its database."""
    return await fresh(postgres_url, template)


@pytest.fixture
async def db(new_database_url: str) -> AsyncIterator[Database]:
    database = await Database.connect(new_database_url)
    yield database
    await database.close()
