"""The whole analytics consumer on real RabbitMQ, S3 and PostgreSQL, all of them on the cores of this machine.

    python -m bench analytics            a backlog of 2,000 batches of 50 items waits, then drains: some two minutes
    OPILIO_BENCH_SCALE=5 …               five times as many
    OPILIO_ANALYTICS_WORKERS=1 …         with one process for the stages, not two

Batches lie in zstd, every item has three comments; each batch is of another project or another part of it, so that
every row is new. The consumer is `opilio run analytics` as production starts it, watched from outside: rows from the
database, durations from its metrics, processor time and memory from the operating system.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import httpx2
import msgspec
import psutil
import zstandard
from tests.components.servers import S3, RabbitMQ, free_port

from bench.analytics_stages import items_of, stage_times, texts_of
from bench.report import Table, progress
from bench.size import scaled
from opilio.adapters.postgres import Database, migrate
from opilio.adapters.postgres.embedded import EmbeddedPostgres
from opilio.bus import Outgoing
from opilio.contracts.topology import COLLECTED_QUEUE, LIFECYCLE, topology
from opilio.rabbitmq.bus import RabbitBus

BATCHES, SIZE, COMMENTS = scaled(2_000, 100), 50, 3
OBJECTS = 200
WINDOW = 5.0
WORKERS = os.environ.get("OPILIO_ANALYTICS_WORKERS", "2")


@dataclass
class Place:
    """The servers, with their processes."""

    s3: S3
    rabbit: RabbitMQ
    postgres: EmbeddedPostgres
    url: str
    database: Database
    folder: Path

    def processes(self) -> dict[str, int]:
        assert self.s3.process
        assert self.rabbit.process
        assert self.postgres.pid
        return {
            "S3": self.s3.process.pid,
            "RabbitMQ": self.rabbit.process.pid,
            "PostgreSQL": self.postgres.pid,
        }

    async def done(self) -> int:
        async with self.database.session() as session:
            return int(await session.connection.fetchval("select count(*) from analysed_batch"))


@asynccontextmanager
async def open_place() -> AsyncIterator[Place]:
    folder = Path(tempfile.mkdtemp(prefix="opilio-bench-"))
    folder.chmod(0o755)
    s3, rabbit, postgres = S3(), RabbitMQ(), EmbeddedPostgres(folder / "pg")
    try:
        s3.start()
        rabbit.start()
        url = postgres.start()
        await migrate.upgrade(url)
        database = await Database.connect(url)
        yield Place(s3, rabbit, postgres, url, database, folder)
        await database.close()
    finally:
        postgres.stop()
        rabbit.remove()
        s3.remove()
        shutil.rmtree(folder, ignore_errors=True)


def fill_storage(place: Place) -> None:
    items = items_of(texts_of(OBJECTS * SIZE), COMMENTS)
    bucket = place.s3.folder / "data" / place.s3.bucket
    for number in range(OBJECTS):
        body = b"[" + b",".join(items[number * SIZE : (number + 1) * SIZE]) + b"]"
        (bucket / f"{number}.json.zst").write_bytes(zstandard.compress(body))


def message(number: int, bucket: str) -> Outgoing:
    project = f"p{number // OBJECTS}"
    payload = {
        "minio_path": f"{bucket}/{number % OBJECTS}.json.zst",
        "project_id": project,
        "job_id": f"{project}-brand-0",
        "batch_index": number % OBJECTS,
        "content_count": SIZE,
        "platform": "tiktok",
        "task_type": "research_and_crawl",
        "keyword": "VinFast VF8",
    }
    event = {"event_id": f"e{number}", "event_type": "data.collected", "payload": payload}
    return Outgoing(LIFECYCLE, "data.collected", msgspec.json.encode(event))


async def publish(place: Place, count: int) -> None:
    bus = await RabbitBus.connect(place.rabbit.url, topology())
    for at in range(0, count, 1_000):
        await bus.publish_many([message(n, place.s3.bucket) for n in range(at, min(at + 1_000, count))])
    assert await bus.depth(COLLECTED_QUEUE) == count
    await bus.close()


@contextmanager
def consumer(place: Place, metrics_port: int) -> Iterator[psutil.Process]:
    environment = {
        "OPILIO_DATABASE_URL": place.url,
        "OPILIO_AMQP_URL": place.rabbit.url,
        "OPILIO_BLOBS_URL": f"s3://{place.s3.bucket}?endpoint={place.s3.url}",
        "OPILIO_DATA_DIR": str(place.folder),
        "OPILIO_METRICS_PORT": str(metrics_port),
        "OPILIO_ANALYTICS_WORKERS": WORKERS,
        "OPILIO_LOG_LEVEL": "warning",
        "AWS_ACCESS_KEY_ID": place.s3.access_key,
        "AWS_SECRET_ACCESS_KEY": place.s3.secret_key,
    }
    # Without byte code every worker compiles the n-grams of the language library: seconds, and 300 MiB that stay.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(
        [sys.executable, "-m", "opilio", "run", "analytics"],
        env={**kept, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(30)


def tree(pid: int) -> list[psutil.Process]:
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def cpu_seconds(pid: int) -> float:
    total = 0.0
    for process in tree(pid):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def resident(pid: int) -> float:
    """MiB of a process and its children."""
    total = 0.0
    for process in tree(pid):
        try:
            total += process.memory_info().rss / 2**20
        except psutil.NoSuchProcess:
            continue
    return total


@dataclass
class Drained:
    """What was seen while the backlog drained."""

    items: int
    seconds: float
    cpu: dict[str, float]
    pages: list[tuple[float, str]]  # the metrics page every five seconds
    memory: list[float] = field(default_factory=list)


async def drain(place: Place, warm: int) -> Drained:
    """From when the consumer is warm to when the last batch is stored."""
    port = free_port()
    with consumer(place, port) as process:
        pids = {"analytics": process.pid, **place.processes()}
        while (first := await place.done()) < warm:
            await asyncio.sleep(0.02)
        began, before = time.perf_counter(), {name: cpu_seconds(pid) for name, pid in pids.items()}
        memory, done, pages = [resident(process.pid)], first, [(began, await page_of(port))]
        while done < BATCHES:
            await asyncio.sleep(0.25)
            done = await place.done()
            memory.append(resident(process.pid))
            if time.perf_counter() - pages[-1][0] >= WINDOW:
                pages.append((time.perf_counter(), await page_of(port)))
                progress(f"  {done:,} of {BATCHES:,} batches stored")
        seconds = time.perf_counter() - began
        cpu = {name: cpu_seconds(pid) - before[name] for name, pid in pids.items()}
        pages.append((time.perf_counter(), await page_of(port)))
        return Drained((done - first) * SIZE, seconds, cpu, pages, memory)


async def page_of(port: int) -> str:
    async with httpx2.AsyncClient() as http:
        return (await http.get(f"http://127.0.0.1:{port}/metrics")).text


def buckets(page: str, name: str) -> dict[float, float]:
    found = {}
    for line in page.splitlines():
        if line.startswith(f"{name}_bucket"):
            bound = line.split('le="')[1].split('"')[0]
            found[float(bound.replace("+Inf", "inf"))] = float(line.rsplit(" ", 1)[1])
    return found


def quantile(before: str, after: str, name: str, share: float) -> float:
    """Milliseconds as Prometheus reckons: the bucket that holds it, and the place within by its share."""
    earlier = buckets(before, name)
    counts = {bound: count - earlier.get(bound, 0) for bound, count in buckets(after, name).items()}
    wanted, low, below = share * counts[float("inf")], 0.0, 0.0
    for bound, count in counts.items():
        if count >= wanted and bound < float("inf"):
            return 1000 * (low + (bound - low) * (wanted - below) / max(count - below, 1))
        low, below = bound, count
    return 1000 * low


def best_of(pages: list[tuple[float, str]]) -> tuple[float, float]:
    """Items a minute and p95 of the best five seconds: other work on the machine comes and goes."""
    name = "event_processing_duration"
    stretches = []
    for (start, before), (end, after) in pairwise(pages):
        batches = buckets(after, name)[float("inf")] - buckets(before, name).get(float("inf"), 0)
        if end - start >= WINDOW or len(pages) == 2:
            rate = 60 * SIZE * batches / (end - start)
            stretches.append((rate, quantile(before, after, name, 0.95)))
    return max(stretches)


async def main() -> Table:
    table = Table(
        f"Analytics consumer: {BATCHES:,} batches of {SIZE} items with {COMMENTS} comments each, {os.cpu_count()} cores",
        ("figure", "value"),
    )
    progress("starting RabbitMQ, S3 and PostgreSQL")
    async with open_place() as place:
        progress(f"storing and publishing {BATCHES:,} batches")
        fill_storage(place)
        await publish(place, BATCHES)
        progress("starting the consumer")
        seen = await drain(place, warm=min(40, BATCHES // 4))
    progress("measuring the stages alone")
    per_item = {name: 1000 * seconds / seen.items for name, seconds in seen.cpu.items()}
    whole = sum(per_item.values())
    table.add("items a minute, by the clock", 60 * seen.items / seen.seconds)
    best, best_p95 = best_of(seen.pages)
    table.add("items a minute, best five seconds", best)
    table.add("items a minute, by processor time of two cores", 60_000 * 2 / whole)
    first, last = seen.pages[0][1], seen.pages[-1][1]
    for share in (0.5, 0.95):
        for title, name in (("batch", "event_processing_duration"), ("fetch", "batch_fetch_duration")):
            table.add(f"{title}, p{share * 100:.0f} (ms)", quantile(first, last, name, share))
    table.add("batch, p95 in the best five seconds (ms)", best_p95)
    for name, figure in per_item.items():
        table.add(f"processor time an item: {name} (ms)", figure)
    for name, figure in stage_times(texts_of(2_000)).items():
        table.add(f"stage, a text: {name} (ms)", figure)
    table.add("memory at the start of the backlog (MiB)", seen.memory[0])
    table.add("memory at most (MiB)", max(seen.memory))
    table.goal("thousand items a minute", 0.06 * seen.items / seen.seconds, at_least=60)
    table.goal("p95 of a batch, ms", quantile(first, last, "event_processing_duration", 0.95), at_most=250)
    table.goal("memory growth over the backlog", max(seen.memory) / seen.memory[0], at_most=1.5)
    load = os.getloadavg()[0]
    table.notes.append(
        f"{WORKERS} worker processes; load average at the end {load:.1f} on {os.cpu_count()} cores"
    )
    return table
