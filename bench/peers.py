"""Opilio beside its peers, fetch to complete, each in turn in one run, three times.

What is the same for all: every job is on disk before it is handed out and its end is on disk before it counts; the body of a
job has 550 bytes; all jobs have the same priority; as many jobs at a time, or as many workers, as Opilio's bots have; whoever uses PostgreSQL has its tables vacuumed and
analyzed and a checkpoint behind it; Opilio and pgqueuer have worked for a moment when the clock starts. Each peer has the settings that its own documents name for many short tasks:
batches, concurrent tasks and a pool of connections for pgqueuer on uvloop, concurrency for procrastinate, a large prefetch and no gossip for
Celery, a binlog with fsync for beanstalkd. What is not the same: Opilio goes over HTTP and does more for a job (a lock with a fence, a
result, the history of values, the next run of the policy, an event); the Python peers run an empty task in the process that
fetched it.

Opilio's pages were crawled a day before and are as they were, because nearly every crawl of a page is one of these. Its first crawl,
which finds every value new and writes a history of them, is measured in a row of its own; so are jobs of all priorities, whose rows
lie far apart. The requests of four bots wait for each other; 16 bots, and a pgqueuer with as many jobs at a
time, are measured, too.
"""

import asyncio
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
from tests.components.servers import RabbitMQ

from bench.api import api, free_port, load, logins
from bench.databases import create_database, fill, opilio_on, server, settle
from bench.report import Table, median, progress
from bench.size import scaled

WAITING, SECONDS, WARM_UP, ROUNDS = scaled(360_000, 10_000), scaled(6, 1), 1, scaled(3, 1)
# So many that each works for some seconds.
PGQUEUER_JOBS, PROCRASTINATE_JOBS, CELERY_JOBS, BEANSTALKD_JOBS = (
    scaled(jobs, 200) for jobs in (120_000, 5_000, 15_000, 40_000)
)
BATCH, BATCH_BOTS, MANY_BATCH_BOTS, SINGLE_BOTS = 100, 4, 16, 64
PAYLOAD = {"url": "https://shop.example/product/1", "note": "x" * 500}
BYTES = 550

IN_BATCHES, ONE_BY_ONE = "Opilio, 100 jobs a request, 4 bots", "Opilio, 1 job a request, 64 bots"
MANY_BATCHES = "Opilio, 100 jobs a request, 16 bots"
FIRST_CRAWLS, SPREAD = f"{IN_BATCHES}, first crawls", f"{IN_BATCHES}, 101 priorities"
PGQUEUER, PROCRASTINATE = "pgqueuer, batches of 100", "procrastinate, 64 at once"
MANY_PGQUEUER = "pgqueuer, batches of 100, as for 16 bots"
CELERY = "Celery on a quorum queue, 2 processes"
BEANSTALKD = "beanstalkd, fsync for every job, 64 workers"


async def main() -> Table:
    rates: dict[str, list[float]] = defaultdict(list)
    async with server() as server_url:
        runs = _runs(server_url)
        for number in range(1, ROUNDS + 1):
            for who, measure in runs.items():
                progress(f"round {number} of {ROUNDS}: {who}")
                rates[who].append(await measure())
    return report(rates)


def _runs(server_url: str) -> dict[str, Callable[[], Awaitable[float]]]:
    runs: dict[str, Callable[[], Awaitable[float]]] = {
        IN_BATCHES: lambda: _opilio(server_url, batch=BATCH, bots=BATCH_BOTS),
        MANY_BATCHES: lambda: _opilio(server_url, batch=BATCH, bots=MANY_BATCH_BOTS),
        FIRST_CRAWLS: lambda: _opilio(server_url, batch=BATCH, bots=BATCH_BOTS, crawled=False),
        SPREAD: lambda: _opilio(server_url, batch=BATCH, bots=BATCH_BOTS, priority=None),
        ONE_BY_ONE: lambda: _opilio(server_url, batch=1, bots=SINGLE_BOTS),
        PGQUEUER: lambda: _pgqueuer(server_url, BATCH_BOTS),
        MANY_PGQUEUER: lambda: _pgqueuer(server_url, MANY_BATCH_BOTS),
        PROCRASTINATE: lambda: _procrastinate(server_url),
        CELERY: lambda: asyncio.to_thread(_celery),
    }
    if shutil.which("beanstalkd"):
        runs[BEANSTALKD] = lambda: asyncio.to_thread(_beanstalkd)
    return runs


def report(rates: dict[str, list[float]]) -> Table:
    table = Table(
        f"Beside peers, jobs of {BYTES} bytes, jobs/s, median of {ROUNDS} in turn",
        ("who", "jobs/s", "Opilio in batches, times as many", "Opilio one by one, times as many"),
    )
    for who, found in rates.items():
        table.add(who, median(found), _times(rates, IN_BATCHES, who), _times(rates, ONE_BY_ONE, who))
    table.goal("in batches, beside pgqueuer", _times(rates, IN_BATCHES, PGQUEUER), at_least=1.5)
    table.goal("the same, 16 bots", _times(rates, MANY_BATCHES, MANY_PGQUEUER), at_least=1.5)
    if BEANSTALKD in rates:
        table.goal("one by one, beside beanstalkd", _times(rates, ONE_BY_ONE, BEANSTALKD), at_least=0.5)
    else:
        table.notes.append("beanstalkd is not installed (Debian's package beanstalkd): left out")
    return table


def _times(rates: dict[str, list[float]], ours: str, theirs: str) -> float:
    """The median of the ratios of each round, for rounds differ more than those within one."""
    return median([our / their for our, their in zip(rates[ours], rates[theirs], strict=True)])


async def _opilio(
    server_url: str, *, batch: int, bots: int, crawled: bool = True, priority: int | None = 50
) -> float:
    url = await create_database(server_url, "peer_opilio")
    async with opilio_on(url) as wired:
        await fill(url, WAITING, jobs=True, crawled=crawled, priority=priority)
        who = await logins(wired.database, bots)
    await settle(url)
    with tempfile.TemporaryDirectory() as folder:
        async with api(url, Path(folder)) as port:
            await load(port, who, batch=batch, seconds=WARM_UP)
            return await load(port, who, batch=batch, seconds=SECONDS)


async def _timed(jobs: int, work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return jobs / (time.perf_counter() - began)


async def _pgqueuer(server_url: str, bots: int) -> float:
    """A connection, and a batch of concurrent tasks, for each bot that Opilio has beside it."""
    import msgspec
    from pgqueuer import AsyncpgPoolDriver, PgQueuer, Queries
    from pgqueuer.domain.types import QueueExecutionMode
    from pgqueuer.models import Job

    url = await create_database(server_url, "peer_pgqueuer")
    async with asyncpg.create_pool(url, min_size=bots, max_size=bots) as pool:
        driver = AsyncpgPoolDriver(pool)
        queries = Queries(driver)
        await queries.install()

        async def drain(jobs: int) -> float:
            await queries.enqueue(["crawl"] * jobs, [msgspec.json.encode(PAYLOAD)] * jobs, [0] * jobs)
            await settle(url)
            queuer = PgQueuer(driver)

            @queuer.entrypoint("crawl")
            async def crawl(job: Job) -> None:
                del job

            return await _timed(
                jobs,
                lambda: queuer.run(
                    mode=QueueExecutionMode.drain,
                    batch_size=BATCH,
                    max_concurrent_tasks=BATCH * bots,
                ),
            )

        await drain(PGQUEUER_JOBS // 10)  # its connections know its statements now, as Opilio's do
        return await drain(PGQUEUER_JOBS)


async def _procrastinate(server_url: str) -> float:
    import procrastinate

    url = await create_database(server_url, "peer_procrastinate")
    connector = procrastinate.PsycopgConnector(conninfo=url, min_size=BATCH_BOTS, max_size=SINGLE_BOTS)
    app = procrastinate.App(connector=connector)

    @app.task(name="crawl")
    async def crawl(**_: object) -> None:
        return None

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await crawl.batch_defer_async(*[PAYLOAD for _ in range(PROCRASTINATE_JOBS)])
        await settle(url)
        return await _timed(
            PROCRASTINATE_JOBS,
            lambda: app.run_worker_async(wait=False, concurrency=SINGLE_BOTS, install_signal_handlers=False),
        )


def _celery() -> float:
    broker = RabbitMQ()
    broker.start()
    try:
        subprocess.run([sys.executable, "-m", "bench.celery_task", broker.url, str(CELERY_JOBS)], check=True)
        words = ("-b", broker.url, "-A", "bench.celery_task", "worker", "-l", "error", "-c", "2")
        quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat")
        with _running(sys.executable, "-m", "celery", *words, *quiet):
            return asyncio.run(_drain_rate(broker.url))
    finally:
        broker.remove()


async def _drain_rate(url: str) -> float:
    """From the first task to the last, by the queue's own count: the start of the worker is not counted."""
    import aio_pika

    connection = await aio_pika.connect(url)
    first: tuple[float, int] | None = None
    async with connection:
        channel = await connection.channel()
        while True:
            queue = await channel.get_queue("celery", ensure=True)
            left = queue.declaration_result.message_count or 0
            now = time.perf_counter()
            if first is None and left < CELERY_JOBS:
                first = (now, left)
            if left == 0 and first is not None:
                return first[1] / (now - first[0])
            await asyncio.sleep(0.01)


def _beanstalkd() -> float:
    port = free_port()
    with (
        tempfile.TemporaryDirectory() as folder,
        _running("beanstalkd", "-l", "127.0.0.1", "-p", str(port), "-b", folder, "-f", "0"),
    ):
        _until_listening(port)
        words = [
            sys.executable,
            "-m",
            "bench.beanstalk_client",
            *map(str, (port, BEANSTALKD_JOBS, SINGLE_BOTS, BYTES)),
        ]
        return float(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def _until_listening(port: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise RuntimeError("beanstalkd does not listen")


@contextmanager
def _running(*words: str) -> Iterator[None]:
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:  # the figures are known; Celery may wait for its prefetched tasks
            process.kill()
            process.wait()
