"""A worker of each peer, with its own defaults, in a process of its own: `python -m bench.peer_workers NAME URL COUNT`.

Each fills its queue with COUNT jobs of the same payload, drains it and prints how many jobs it did in a second, from
the first to the last. A job does nothing but note the time, so what is measured is fetch and completion.
"""

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

PAYLOAD: dict[str, Any] = {
    "url": "https://shop17.example/product/1234567", "priority": 50, "queue": "http", "crawl_config": {}, "rule_set": {},
    "max_retries": 3, "retry_count": 0, "timeout_seconds": 600,
}  # fmt: skip


def rate(moments: list[float]) -> float:
    return (len(moments) - 1) / (max(moments) - min(moments))


async def pgqueuer(url: str, count: int) -> float:
    import asyncpg
    from pgqueuer import AsyncpgDriver, PgQueuer, Queries
    from pgqueuer.types import QueueExecutionMode

    connection = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    body = msgspec.json.encode(PAYLOAD)
    for _ in range(0, count, 1000):
        await queries.enqueue(["crawl"] * 1000, [body] * 1000, [0] * 1000)
    worker, moments = PgQueuer(AsyncpgDriver(connection)), []

    @worker.entrypoint("crawl")
    async def crawl(job: Any) -> None:
        msgspec.json.decode(job.payload)
        moments.append(time.perf_counter())

    await worker.run(mode=QueueExecutionMode.drain)
    return rate(moments)


async def procrastinate(url: str, count: int) -> float:
    from procrastinate import App, PsycopgConnector

    app, moments = App(connector=PsycopgConnector(conninfo=url)), []

    @app.task(name="crawl")
    async def crawl(**_payload: Any) -> None:
        moments.append(time.perf_counter())

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for _ in range(0, count, 1000):
            await crawl.batch_defer_async(*[PAYLOAD] * 1000)
        await app.run_worker_async(wait=False, install_signal_handlers=False)
    return rate(moments)


async def celery(url: str, count: int) -> float:
    """Celery's pool is made of processes, so each job notes its time in a file that all append to."""
    notes = Path(tempfile.mkdtemp(prefix="opilio-bench-")) / "times"
    notes.touch()
    from bench.peer_celery import app, crawl

    app.conf.broker_url = url
    with app.producer_or_acquire() as producer:
        for _ in range(count):
            crawl.apply_async(kwargs={"payload": PAYLOAD}, producer=producer)
    worker = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "celery",
            "-A",
            "bench.peer_celery",
            "-b",
            url,
            "worker",
            "--loglevel",
            "ERROR",
        ),
        env={**os.environ, "BENCH_NOTES": str(notes)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(120):
            while notes.stat().st_size < 8 * count:
                await asyncio.sleep(0.1)
    finally:
        worker.terminate()
        await worker.wait()
    return rate(list(memoryview(notes.read_bytes()).cast("d")))


if __name__ == "__main__":
    _, name, url, count = sys.argv
    print(
        asyncio.run(
            {"pgqueuer": pgqueuer, "procrastinate": procrastinate, "celery": celery}[name](url, int(count))
        )
    )
