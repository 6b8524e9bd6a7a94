"""Programs that check what is in deploy/: never skipped in CI."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.components.servers import program

DEPLOY = Path(__file__).parents[2] / "deploy"


def need(name: str) -> str:
    """The path of a program, or the end of the test: a failure under CI, else a skip that says why."""
    found = program(name)
    if found is None:
        message = f"{name} is not installed: run tests/components/install.sh"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return found


def host_of(server_url: str) -> str:
    """The folder of the socket that the tests' PostgreSQL listens on."""
    found = re.search(r"host=([^&]+)", server_url)
    assert found
    return found[1]


def output(*words: str | Path, **options) -> str:
    done = subprocess.run(
        list(map(str, words)), capture_output=True, text=True, timeout=280, check=False, **options
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr
