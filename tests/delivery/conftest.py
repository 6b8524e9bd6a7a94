from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from opilio.adapters.postgres import Database
from opilio.adapters.postgres.embedded import EmbeddedPostgres
from tests.components.fixtures import own_rabbitmq, rabbitmq, rabbitmq_url, redis_server, redis_url, s3  # noqa: F401
from tests.delivery.databases import fresh, make_template


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    # Not in pytest's own folder: another run on the machine may clear that one away.
    with TemporaryDirectory(prefix="opilio-delivery-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        server = EmbeddedPostgres(Path(folder) / "postgres")
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
