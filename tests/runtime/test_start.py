"""A start is fast where nothing is to be done, and trusts nothing that a killed process left."""

import json
import os
import subprocess
import sys

import pytest
from alembic.script import ScriptDirectory

from opilio.adapters.postgres import migrate
from opilio.adapters.postgres.embedded import EmbeddedPostgres, binary
from opilio.adapters.postgres.memory import memory_settings, usable_memory


def test_the_newest_revision_is_known_without_alembic():
    scripts = ScriptDirectory.from_config(migrate._config("postgresql://nowhere"))
    assert migrate.newest() == scripts.get_current_head()


@pytest.mark.parametrize(
    ("modules", "unwanted"),
    [
        ("opilio.runtime.up", "alembic sqlalchemy litestar uvicorn rich twisted httpx2"),
        (
            "opilio.runtime.roles.api opilio.web.app",
            "alembic sqlalchemy rich twisted httpx2 aio_pika redis eld pydantic attr",
        ),
        (
            "opilio.runtime.roles.scheduler",
            "alembic sqlalchemy litestar uvicorn rich twisted httpx2 aio_pika eld",
        ),
        ("opilio.runtime.roles.collector", "alembic sqlalchemy litestar uvicorn rich twisted aio_pika eld"),
        (
            "opilio.runtime.roles.delivery",
            "alembic sqlalchemy litestar uvicorn rich twisted aio_pika redis eld",
        ),
        ("opilio.runtime.roles.analytics", "alembic sqlalchemy litestar uvicorn rich twisted aio_pika redis"),
    ],
)
def test_a_start_does_not_load_what_it_does_not_need(modules: str, unwanted: str):
    """Imports are most of a start; each of these libraries is installed and takes a noticeable part of it."""
    probe = (
        f"import sys, {modules.replace(' ', ', ')}, opilio.runtime.logging;"
        "sys.modules.get('opilio.web.app') and sys.modules['opilio.web.app'].build_app();"
        f"print(*[name for name in {unwanted.split()!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == []


def test_what_killed_processes_left_is_cleared_up(data_dir):
    """Handles of the dead keep a server alive for ever; a process id can be anybody's after a restart."""
    directory = data_dir / "postgres"
    dead = 4_194_304  # above what Linux gives out
    (directory / ".handle_pids.json").write_text(json.dumps([dead]))
    (directory / "postmaster.pid").write_text(
        f"{os.getpid()}\n{directory}\n1\n5432\n{directory}\n\n0 0\nready\n"
    )
    server = EmbeddedPostgres(directory)
    server.start()
    assert server.running
    assert json.loads((directory / ".handle_pids.json").read_text()) == [os.getpid()]
    server.stop()
    assert not (directory / "postmaster.pid").exists()


def test_a_first_start(tmp_path):
    server = EmbeddedPostgres(tmp_path / "instance" / "postgres")
    url = server.start()
    try:
        ask = "select current_user, current_setting('server_encoding'), pg_size_bytes(current_setting('shared_buffers')) >> 20"
        psql = [binary("psql"), url, "-tAc", ask]
        done = subprocess.run(psql, capture_output=True, text=True, check=True)
    finally:
        server.stop()
    user, encoding, buffers = done.stdout.strip().split("|")
    assert (user, encoding) == ("postgres", "UTF8")
    assert f"shared_buffers = {buffers}MB\n" in memory_settings(usable_memory())
