"""Lists and runs benches: each is a module with `async def main()` that answers a table, or prints its own."""

import asyncio
import importlib
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import psutil

from bench.report import progress, save, show

BENCHES = (
    "pull_latency",
    "scheduling",
    "imports",
    "cost",
    "parameters",
    "throughput",
    "peers",
    "startup",
    "bot_sdk",
    "delivery",
    "collector",
    "analytics",
    "dashboard",
    "figures",
    "freshness",
    "adaptive_days",
)


def use_a_disk() -> None:
    """Data lies on a disk, as a deployment's does, so that a commit waits as it waits there: temporary folders may be memory."""
    folder = os.environ.get("OPILIO_BENCH_DATA", "/var/tmp")
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    mounts = [
        part for part in psutil.disk_partitions(all=True) if Path(folder).is_relative_to(part.mountpoint)
    ]
    if max(mounts, key=lambda part: len(part.mountpoint)).fstype in ("tmpfs", "ramfs"):
        progress(
            f"{folder} is memory: commits cost nothing there; set OPILIO_BENCH_DATA to a folder on a disk"
        )


def run(name: str) -> None:
    began = time.monotonic()
    table = asyncio.run(importlib.import_module(f"bench.{name}").main())
    if table is not None:
        show(table, seconds=time.monotonic() - began)
        save(name, table)


def main(wanted: list[str]) -> int:
    unknown = set(wanted) - set(BENCHES)
    if unknown:
        print(
            f"There is no bench {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}.",
            file=sys.stderr,
        )
        return 2
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # `timeout` ends it, and its servers with it
    use_a_disk()
    for name in wanted or BENCHES:
        run(name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
