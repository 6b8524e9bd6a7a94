"""Lists and runs benches: each is a module with `async def main()` that answers a table, or prints its own."""

import asyncio
import importlib
import os
import signal
import sys
import time

from bench.report import save, show

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
    for name in wanted or BENCHES:
        run(name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
