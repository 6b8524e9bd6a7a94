"""A start is fast where nothing is to be done, and trusts nothing that a killed process left."""

import json
import os
import subprocess
import sys

from alembic.script import ScriptDirectory

from opilio.adapters.postgres import migrate
from opilio.adapters.postgres.embedded import EmbeddedPostgres


def test_the_newest_revision_is_known_without_alembic():
    scripts = ScriptDirectory.from_config(migrate._config("postgresql://nowhere"))
    assert migrate.newest() == scripts.get_current_head()


def test_a_start_does_not_load_what_it_does_not_need():
    probe = "import sys, opilio.runtime.up; print([m for m in ('alembic', 'sqlalchemy', 'litestar') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


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
