"""How long `opilio up` takes to be ready and to show the dashboard of the demo, and how much memory it holds."""

import asyncio
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
from tests.web.running import free_port

from bench.report import Table
from bench.size import scaled

_RUNS = scaled(3, 1)


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds until the API was ready, until the dashboard showed the demo, and the memory held."""

    ready: float
    shown: float
    memory: int


async def main() -> Table:
    return await asyncio.to_thread(_measure)


def _measure() -> Table:
    plain, demo = _starts("--no-demo"), _starts("--demo")
    memory = max(start.memory for start in plain)
    table = Table("opilio up", ("what", "first start, with initdb", "later, median"))
    table.add("ready, --no-demo", f"{plain[0].ready:.1f} s", f"{_median(plain[1:], 'ready'):.1f} s")
    table.add("ready, with the demo", f"{demo[0].ready:.1f} s", f"{_median(demo[1:], 'ready'):.1f} s")
    table.add("dashboard shows the demo", f"{demo[0].shown:.1f} s", f"{_median(demo[1:], 'shown'):.1f} s")
    table.add("memory without PostgreSQL, --no-demo", "", f"{memory / 2**20:.0f} MB")
    table.goal("first start: ready, seconds", plain[0].ready, at_most=5)
    table.goal("later starts: ready, seconds", _median(plain[1:], "ready"), at_most=2)
    table.goal("first start: dashboard shows the demo, seconds", demo[0].shown, at_most=8)
    table.goal("later starts: dashboard shows the demo, seconds", _median(demo[1:], "shown"), at_most=3)
    table.goal("memory, MB", memory / 2**20, at_most=400)
    return table


def _starts(demo: str) -> list[Start]:
    """A first start on an empty directory, then later ones on the same."""
    folder = Path(tempfile.mkdtemp(prefix="opilio-bench-"))
    folder.chmod(0o755)
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    try:
        return [start_once(folder, demo, browser) for _ in range(1 + _RUNS)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _median(starts: list[Start], what: str) -> float:
    return statistics.median(getattr(start, what) for start in starts)


def start_once(folder: Path, demo: str, browser: urllib.request.OpenerDirector) -> Start:
    port = free_port()
    words = (
        sys.executable,
        "-m",
        "opilio",
        "up",
        demo,
        "--json",
        "--data-dir",
        str(folder),
        "--port",
        str(port),
    )
    began = time.monotonic()
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, env={**os.environ, "OPILIO_LOG_LEVEL": "error"}
    )
    try:
        _until(lambda: _ready(port))
        ready = time.monotonic() - began
        said = json.loads(process.stdout.readline())  # type: ignore[union-attr]
        if demo == "--demo":
            if said["login_url"]:
                _log_in(browser, said["login_url"])
            _until(lambda: _shows_products(browser, port))
        shown = time.monotonic() - began
        time.sleep(3)  # until everything that a running instance needs is loaded
        return Start(ready, shown, _memory(process.pid))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not true():
        if time.monotonic() > deadline:
            raise AssertionError("opilio up was not ready within two minutes")
        time.sleep(0.02)


def _log_in(browser: urllib.request.OpenerDirector, login_url: str) -> None:
    """Through the link that the first start shows; the session outlives restarts."""
    form = urllib.parse.urlencode({"password": "a long enough one", "again": "a long enough one"}).encode()
    with browser.open(login_url, form, timeout=30):
        pass


def _shows_products(browser: urllib.request.OpenerDirector, port: int) -> bool:
    with browser.open(f"http://127.0.0.1:{port}/policies", timeout=30) as answer:
        return b'href="/policies/0' in answer.read()


def _ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1) as answer:
            return answer.status == 200
    except OSError:
        return False


def _memory(pid: int) -> int:
    tree = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    return sum(process.memory_info().rss for process in tree if "postgres" not in process.name())
