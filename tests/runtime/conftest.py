"""Process trees as a person starts them."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import psutil
import pytest


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(true: Callable[[], Any], seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
    return found


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def http(url: str, body: Any = None, token: str | None = None, timeout: float = 40) -> tuple[int, str]:
    """Status and body; 0 where nobody answers."""
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
    data = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(Request(url, data, headers), timeout=timeout) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()
    except (URLError, OSError):
        return 0, ""


class Tree:
    """A running command and all its processes."""

    def __init__(self, words: list[str], env: dict[str, str], errors: Path) -> None:
        self.errors = errors
        with errors.open("w") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "opilio", *words],
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env={**os.environ, **env},
            )

    def ready(self) -> dict[str, Any]:
        """What `up --json` says once it is ready."""
        line = self.process.stdout.readline()
        assert line, self.errors.read_text()
        return json.loads(line)

    def children(self) -> dict[str, psutil.Process]:
        """By the role that they run."""
        found = {}
        for child in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                words = child.cmdline()
                if "run" in words:
                    found[words[-1]] = child
        return found

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)


@contextlib.contextmanager
def trees(folder: Path) -> Iterator[Callable[..., Tree]]:
    """Starts commands, and ends in the end what was left running."""
    started: list[Tree] = []

    def start(*words: str, **env: str) -> Tree:
        started.append(Tree(list(words), env, folder / f"stderr-{len(started)}"))
        return started[-1]

    try:
        yield start
    finally:
        for left in started:
            if left.process.poll() is None:
                left.stop()
            left.process.stdout.close()


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Callable[..., Tree]]:
    with trees(tmp_path) as start:
        yield start


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory whose database is made already."""
    directory = tmp_path_factory.mktemp("prepared")
    opilio(directory, "db", "upgrade")
    return directory


def opilio(data_dir: Path, *words: str) -> str:
    """A command on a data directory; its stdout."""
    line = [sys.executable, "-m", "opilio", *words, "--data-dir", str(data_dir)]
    return subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True, timeout=300).stdout.strip()


def copied(prepared: Path, folder: Path) -> Path:
    """`cp -a` keeps the owner that PostgreSQL insists on."""
    copy = folder / "data"
    subprocess.run(["cp", "-a", str(prepared), str(copy)], check=True, timeout=60)
    return copy


@pytest.fixture
def data_dir(prepared: Path, tmp_path: Path) -> Path:
    return copied(prepared, tmp_path)
