"""How long `opilio up` takes to answer on a data directory that is there, and what its processes weigh."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from bench.api import free_port, until_ready
from bench.report import Table, median

ROUNDS = 3


async def once(folder: Path) -> tuple[float, float]:
    """Seconds to /readyz, and megabytes of all processes without PostgreSQL."""
    port = free_port()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OPILIO_")}
    command = [
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
    began = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    try:
        await until_ready(port, process)
        took = time.perf_counter() - began
        await asyncio.sleep(2)  # until the first rounds of all loops have loaded what they need
        tree = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        weight = sum(p.memory_info().rss for p in tree if not p.name().startswith("postgres"))
    finally:
        process.terminate()
        process.wait(30)
    return took, weight / 2**20


async def main() -> Table:
    folder = Path(tempfile.mkdtemp(prefix="opilio-bench-"))
    try:
        first, _ = await once(folder)
        found = [await once(folder) for _ in range(ROUNDS)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    seconds, megabytes = (median(values) for values in zip(*found, strict=True))
    table = Table(f"`opilio up`, median of {ROUNDS}", ("", "s to /readyz", "MB without PostgreSQL"))
    table.add("the first time, with an empty directory", first, "")
    table.add("with the directory there", seconds, megabytes)
    table.goal("seconds to /readyz", seconds, at_most=3)
    table.goal("megabytes of all processes without PostgreSQL", megabytes, at_most=400)
    return table
