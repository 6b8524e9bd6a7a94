"""Runs commands: in this process where it can be, in one of their own where it matters."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import structlog

from opilio.cli.app import run


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Command = Callable[..., Outcome]


@pytest.fixture
def logging_put_back() -> Iterator[None]:
    """A command configures the logging of its process; this one goes on."""
    root = logging.getLogger()
    handlers, level, configuration = root.handlers, root.level, structlog.get_config()
    yield
    root.handlers = handlers
    root.setLevel(level)
    structlog.configure(**configuration)


@pytest.fixture
def opilio_command(database_url: str, tmp_path: Path, monkeypatch, capfd, logging_put_back) -> Command:
    """A command in this process, on a fresh database."""
    monkeypatch.setenv("OPILIO_DATABASE_URL", database_url)
    monkeypatch.setenv("OPILIO_DATA_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def invoke(*words: str) -> Outcome:
        capfd.readouterr()
        code = run(list(words))
        seen = capfd.readouterr()
        return Outcome(code, seen.out, seen.err)

    return invoke


@pytest.fixture
def opilio_process() -> Command:
    """A command as a person starts it."""

    def invoke(*words: str, **env: str) -> Outcome:
        done = subprocess.run(
            [sys.executable, "-m", "opilio", *words],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, **env},
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    return invoke
