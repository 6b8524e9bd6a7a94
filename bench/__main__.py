"""Runs benches: each is a module with `async def main()` that answers a table, or prints its own.

    python -m bench [--write PAGE] [NAME …]

`--write docs/explanation/performance.md` also puts each table into its block of that page. Data lies in OPILIO_BENCH_DATA,
by default in /var/tmp.
"""

import importlib
import os
import signal
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import psutil
import uvloop

from bench.report import markdown, progress, save, show, write_block

BENCHES = (
    "pull_latency",
    "scheduling",
    "imports",
    "upgrade",
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


def run(name: str, page: Path | None) -> None:
    began = time.monotonic()
    table = uvloop.run(importlib.import_module(f"bench.{name}").main())
    if table is not None:
        show(table, seconds=time.monotonic() - began)
        save(name, table)
        if page is not None:
            write_block(page, name, markdown(table, when=f"{datetime.now(UTC):%Y-%m-%d}"))


def main(words: list[str]) -> int:
    page, wanted = (Path(words[1]), words[2:]) if words[:1] == ["--write"] and words[1:] else (None, words)
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
        run(name, page)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
