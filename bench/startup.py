"""How long `opilio up` takes to be ready on an existing data directory, and how much memory it holds."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import psutil
from tests.web.running import free_port

from bench.report import Table
from bench.size import scaled

_RUNS = scaled(3, 1)


async def main() -> Table:
    return await asyncio.to_thread(_measure)


def _measure() -> Table:
    folder = Path(tempfile.mkdtemp(prefix="opilio-bench-"))
    folder.chmod(0o755)
    try:
        first, _ = _start_once(folder)
        again = [_start_once(folder) for _ in range(_RUNS)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    seconds = sorted(took for took, _ in again)[_RUNS // 2]
    memory = max(held for _, held in again)
    table = Table("opilio up --no-demo", ("what", "measured"))
    table.add("first start, with initdb", f"{first:.1f} s")
    table.add("ready on an existing directory, median", f"{seconds:.1f} s")
    table.add("memory of its processes without PostgreSQL", f"{memory / 2**20:.0f} MB")
    table.goal("ready, seconds", seconds, at_most=3)
    table.goal("memory, MB", memory / 2**20, at_most=400)
    return table


def _start_once(folder: Path) -> tuple[float, int]:
    port = free_port()
    began = time.monotonic()
    words = [
        sys.executable,
        "-m",
        "opilio",
        "up",
        "--no-demo",
        "--data-dir",
        str(folder),
        "--port",
        str(port),
    ]
    process = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, env={**os.environ, "OPILIO_LOG_LEVEL": "error"}
    )
    try:
        while not _ready(port):
            if time.monotonic() - began > 120:
                raise AssertionError("opilio up was not ready within two minutes")
            time.sleep(0.02)
        took = time.monotonic() - began
        time.sleep(3)  # until everything that a running instance needs is loaded
        return took, _memory(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1) as answer:
            return answer.status == 200
    except OSError:
        return False


def _memory(pid: int) -> int:
    tree = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    return sum(process.memory_info().rss for process in tree if "postgres" not in process.name())
