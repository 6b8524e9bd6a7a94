"""One real PostgreSQL for the whole run, one fresh database for each test.

The server starts once, also under pytest-xdist; the schema is migrated once, into a template; each test gets a
copy of it in a few dozen milliseconds.
"""

import asyncio
import fcntl
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from opilio.adapters.postgres import Database, migrate
from opilio.adapters.postgres.embedded import EmbeddedPostgres
from opilio.clock import Clock
from opilio.runtime.bootstrap import Opilio, wire
from opilio.runtime.settings import Settings, load_settings
from tests.order import below_tests, places

# Properties are judged by their answers, not by how busy the machine is.
hypothesis_settings.register_profile("opilio", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("opilio")

TEMPLATE = "opilio_template"
# A shell that sets this hides lines that a program forgets to flush.
os.environ.pop("PYTHONUNBUFFERED", None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = places([below_tests(item.path) for item in items])
    items[:] = [item for _, item in sorted(zip(order, items, strict=True), key=lambda pair: pair[0])]


@contextmanager
def locked(file: Path) -> Iterator[None]:
    with file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def database_at(server_url: str, name: str) -> str:
    return server_url.replace("/postgres?", f"/{name}?", 1)


async def make_template(server_url: str) -> None:
    connection = await asyncpg.connect(server_url)
    try:
        if await connection.fetchval("select 1 from pg_database where datname = $1", TEMPLATE):
            return
        # A test database is never recovered after a crash: what makes writes safe is only slow here.
        for setting in ("fsync = off", "full_page_writes = off", "synchronous_commit = off"):
            await connection.execute(f"alter system set {setting}")
        await connection.execute("select pg_reload_conf()")
        await connection.execute(f"create database {TEMPLATE}_new")
        await migrate.upgrade(database_at(server_url, f"{TEMPLATE}_new"))
        await connection.execute(f"alter database {TEMPLATE}_new rename to {TEMPLATE}")
    finally:
        await connection.close()


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder of this run, the same for all workers of pytest-xdist."""
    own = tmp_path_factory.getbasetemp()
    return own if worker_id == "master" else own.parent


def server_folder(shared_folder: Path) -> Path:
    """Not below pytest's own folder, which every other run of pytest closes to the user that PostgreSQL runs as."""
    note = shared_folder / "server"
    if not note.exists():
        note.write_text(tempfile.mkdtemp(prefix="opilio-test-"))
    return Path(note.read_text())


@pytest.fixture(scope="session")
async def server_url(shared_folder: Path) -> AsyncIterator[str]:
    """The maintenance database of the one PostgreSQL of this run."""
    with locked(shared_folder / "server.lock"):
        folder = server_folder(shared_folder)
        # Few buffers: each dropped database is looked for in all of them.
        server = EmbeddedPostgres(folder / "pg", memory=2 << 30)
        url = server.start()
        await make_template(url)
    yield url
    with locked(shared_folder / "server.lock"):
        server.stop()
        if not (folder / "pg" / "postmaster.pid").exists():  # the last worker
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def server_dir() -> Iterator[Path]:
    """A folder in which an embedded server of a test's own can live, for the same reason."""
    folder = Path(tempfile.mkdtemp(prefix="opilio-test-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


class FreshDatabases:
    """Copies of the template: the next one is made, and the last one dropped, while a test runs."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self._one_at_a_time = asyncio.Lock()
        self._dropping: list[asyncio.Task[None]] = []
        self._next = asyncio.create_task(self._create())

    async def take(self) -> str:
        name = await self._next
        self._next = asyncio.create_task(self._create())
        await asyncio.sleep(0)  # the statement is sent now: a test without await would hold it back
        return name

    def drop(self, name: str) -> None:
        self._dropping.append(asyncio.create_task(self._execute(f"drop database {name} with (force)")))

    async def close(self) -> None:
        await asyncio.gather(self._next, *self._dropping)
        await self._connection.close()

    async def _create(self) -> str:
        name = f"test_{uuid4().hex}"
        await self._execute(f"create database {name} template {TEMPLATE} strategy wal_log")
        return name

    async def _execute(self, statement: str) -> None:
        async with self._one_at_a_time:
            await self._connection.execute(statement)


@pytest.fixture(scope="session")
async def fresh_databases(server_url: str) -> AsyncIterator[FreshDatabases]:
    databases = FreshDatabases(await asyncpg.connect(server_url))
    yield databases
    await databases.close()


@pytest.fixture
async def database_url(server_url: str, fresh_databases: FreshDatabases) -> AsyncIterator[str]:
    """A fresh database with the newest schema."""
    name = await fresh_databases.take()
    yield database_at(server_url, name)
    fresh_databases.drop(name)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = await Database.connect(database_url)
    yield database
    await database.close()


@pytest.fixture
def clock() -> Clock:
    """The database's own clock; tests that travel in time override this with a FixedClock."""
    return Clock()


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    return load_settings(data_dir=tmp_path, database_url=database_url)


@pytest.fixture
def opilio(settings: Settings, database: Database, clock: Clock) -> Opilio:
    """Everything wired, on a fresh database."""
    return wire(settings, database, clock)
