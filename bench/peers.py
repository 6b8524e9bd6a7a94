"""Opilio beside its peers, fetch to complete, in one run: each with its own defaults, each durable.

Opilio does more for a job (a lock with a fence, a result, the policy, the event) and goes over HTTP; the others run a
task that does nothing, in the process that fetched it.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg
from tests.components.servers import RabbitMQ

from bench.api import api, load, logins
from bench.databases import STATES, create_database, fill, opilio_on, run, server
from bench.report import Table
from bench.size import scaled

JOBS, WAITING, SECONDS = scaled(5_000, 200), scaled(40_000, 10_000), scaled(6, 1)
PAYLOAD = {"url": "https://shop.example/product/1", "note": "x" * 500}


async def main() -> Table:
    table = Table(
        f"Beside peers, {JOBS} jobs of 550 bytes, jobs/s", ("who", "jobs/s", "Opilio, times as many")
    )
    rates: dict[str, float] = {}
    async with server() as server_url:
        rates["Opilio, 100 jobs a request, 4 bots"] = await opilio(server_url, batch=100, bots=4)
        rates["Opilio, 1 job a request, 64 bots"] = await opilio(server_url, batch=1, bots=64)
        rates["pgqueuer"] = await _pgqueuer(await create_database(server_url, "peer_pgqueuer"))
        rates["procrastinate"] = await _procrastinate(await create_database(server_url, "peer_procrastinate"))
    rates["Celery on RabbitMQ"] = await asyncio.to_thread(_celery)
    ours = rates["Opilio, 100 jobs a request, 4 bots"]
    for who, rate in rates.items():
        table.add(who, rate, ours / rate)
    fastest = max(rate for who, rate in rates.items() if not who.startswith("Opilio"))
    table.goal("Opilio against the fastest of them", ours / fastest, at_least=1.0)
    return table


async def opilio(server_url: str, *, batch: int, bots: int) -> float:
    url = await create_database(server_url, "peer_opilio")
    async with opilio_on(url) as wired:
        await fill(url, WAITING, jobs=True)
        await run(url, STATES)
        who = await logins(wired.database, bots)
    with tempfile.TemporaryDirectory() as folder:
        async with api(url, Path(folder)) as port:
            return await load(port, who, batch=batch, seconds=SECONDS)


async def _timed(work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return JOBS / (time.perf_counter() - began)


async def _pgqueuer(url: str) -> float:
    import msgspec
    from pgqueuer import AsyncpgDriver, PgQueuer, Queries
    from pgqueuer.domain.types import QueueExecutionMode
    from pgqueuer.models import Job

    connection = await asyncpg.connect(url)
    driver = AsyncpgDriver(connection)
    queries = Queries(driver)
    await queries.install()
    body = msgspec.json.encode(PAYLOAD)
    await queries.enqueue(["crawl"] * JOBS, [body] * JOBS, [0] * JOBS)
    queuer = PgQueuer(driver)

    @queuer.entrypoint("crawl")
    async def crawl(job: Job) -> None:
        del job

    try:
        return await _timed(lambda: queuer.run(mode=QueueExecutionMode.drain))
    finally:
        await connection.close()


async def _procrastinate(url: str) -> float:
    import procrastinate

    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))

    @app.task(name="crawl")
    async def crawl(**_: object) -> None:
        return None

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await crawl.batch_defer_async(*[PAYLOAD for _ in range(JOBS)])
        return await _timed(lambda: app.run_worker_async(wait=False, install_signal_handlers=False))


def _celery() -> float:
    broker = RabbitMQ()
    broker.start()
    try:
        subprocess.run([sys.executable, "-m", "bench.celery_task", broker.url, str(JOBS)], check=True)
        words = [
            sys.executable,
            "-m",
            "celery",
            "-b",
            broker.url,
            "-A",
            "bench.celery_task",
            "worker",
            "-l",
            "error",
        ]
        worker = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return asyncio.run(_drain_rate(broker.url))
        finally:
            worker.terminate()
            worker.wait(20)
    finally:
        broker.stop()


async def _drain_rate(url: str) -> float:
    """From the first task to the last, by the queue's own count: the start of the worker is not counted."""
    import aio_pika

    connection = await aio_pika.connect(url)
    first: tuple[float, int] | None = None
    async with connection:
        channel = await connection.channel()
        while True:
            queue = await channel.declare_queue("celery", passive=True, durable=True)
            left = queue.declaration_result.message_count or 0
            now = time.perf_counter()
            if first is None and left < JOBS:
                first = (now, left)
            if left == 0 and first is not None:
                return first[1] / (now - first[0])
            await asyncio.sleep(0.01)
