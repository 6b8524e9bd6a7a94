"""What one crawled job costs: row writes, WAL, index entries, buffers, processor time and allocations, step by step.

Everything goes through the entrances of a deployment: `opilio jobs create-due`, pull and submit over HTTP in batches
of 100, `opilio run delivery` for the events. Three crawls of the same pages: the first, one with one changed value,
one in which nothing changed. The counts are PostgreSQL's own and repeat well on a busy machine; the times do not.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import psutil

from bench.allocations import allocations
from bench.api import api, logins
from bench.databases import create_database, fill, opilio_on, run, server
from bench.report import Table
from bench.size import scaled

PAGES, BATCH, BOTS = scaled(5_000, 200), 100, 10
CRAWLS = ("first crawl", "one value changed", "nothing changed")
STEPS = ("schedule", "pull", "submit", "deliver")
# A connection that stays open reports its counts only after it has been idle for ten seconds.
HTTP_STEPS, IDLE_FLUSH = ("pull", "submit"), 11
GOALS = {"one value changed": (7, 2_500), "nothing changed": (6, 2_000)}
_COUNTERS = """
select relname as name, n_tup_ins + n_tup_upd + n_tup_del as writes,
       (n_tup_ins + n_tup_upd - n_tup_hot_upd)
         * (select count(*) from pg_index i where i.indrelid = s.relid) as index_entries
from pg_stat_user_tables s"""
# What a row takes on disk with its indexes, for good. Pages of `crawl_state` are half free by intent.
SIZES = {
    "policy": ("policy", "crawl_state"),
    "finished job with its result and its event": ("job_archive",),
    "crawl with a changed value": ("changed_value",),
}
OUTLIVED = {"result": ("result",), "event": ("event",)}
_SIZE = """
select sum(pg_total_relation_size(c.oid))::float8 from pg_class c
where (c.oid = any($1::regclass[]) or c.oid in (select inhrelid from pg_inherits where inhparent = any($1::regclass[])))
  and pg_relation_size(c.oid) > 0"""
_WAL = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8"
_BUFFERS = "select (blks_hit + blks_read)::float8 from pg_stat_database where datname = current_database()"


@dataclass
class Reading:
    """The counters at one moment."""

    wal: float
    buffers: float
    writes: dict[str, int]
    index_entries: int
    postgres: float
    python: float


@dataclass
class Cost:
    """What a step took, of which `tables` names the row writes."""

    wal: float = 0
    buffers: float = 0
    index_entries: float = 0
    postgres: float = 0
    python: float = 0
    tables: dict[str, float] = field(default_factory=dict)

    @property
    def writes(self) -> float:
        return sum(self.tables.values())

    def add(self, other: "Cost") -> None:
        for name in ("wal", "buffers", "index_entries", "postgres", "python"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for table, writes in other.tables.items():
            self.tables[table] = self.tables.get(table, 0) + writes


class Meter:
    """Reads PostgreSQL's counters and the processor time of its processes and of ours."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.watched: list[psutil.Process] = []

    async def read(self) -> Reading:
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute("select pg_stat_force_next_flush()")
            rows = await connection.fetch(_COUNTERS)
            postmaster = psutil.Process(await connection.fetchval("select pg_backend_pid()")).parent()
            return Reading(
                await connection.fetchval(_WAL),
                await connection.fetchval(_BUFFERS),
                {row["name"]: row["writes"] for row in rows},
                sum(row["index_entries"] for row in rows),
                processor_seconds(postmaster),
                sum(processor_seconds(process) for process in self.watched),
            )
        finally:
            await connection.close()


def processor_seconds(root: psutil.Process | None) -> float:
    """Of a process, its children and the children that it has waited for."""
    if root is None:
        return 0.0
    total = 0.0
    for process in (root, *root.children(recursive=True)):
        try:
            total += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total


def difference(before: Reading, after: Reading, jobs: int) -> Cost:
    tables = {
        table: (after.writes[table] - before.writes.get(table, 0)) / jobs
        for table in after.writes
        if after.writes[table] != before.writes.get(table, 0)
    }
    return Cost(
        wal=(after.wal - before.wal) / jobs,
        buffers=(after.buffers - before.buffers) / jobs,
        index_entries=(after.index_entries - before.index_entries) / jobs,
        postgres=(after.postgres - before.postgres) / jobs * 1e3,
        python=(after.python - before.python) / jobs * 1e3,
        tables=tables,
    )


class Fleet:
    """Bots that pull every waiting job and then submit what they hold."""

    def __init__(self, port: int, bots: list[str]) -> None:
        self.port = port
        self.bots = [bot.split("=", 1) for bot in bots]
        self.held: list[tuple[int, list[dict[str, Any]]]] = []

    async def pull(self) -> int:
        self.held = []
        for number in self._turns():
            name, _ = self.bots[number]
            answer = await self._post(number, "pull", {"bot_id": name, "max_jobs": BATCH})
            if not answer["jobs"]:
                break
            self.held.append((number, answer["jobs"]))
        return sum(len(jobs) for _, jobs in self.held)

    async def submit(self, result: dict[str, Any]) -> None:
        for number, jobs in self.held:
            name, _ = self.bots[number]
            results = [{"job_id": job["job_id"], "lock_token": job["lock_token"], **result} for job in jobs]
            answer = await self._post(number, "submit/batch", {"bot_id": name, "results": results})
            refused = [item for item in answer["results"] if not item["success"]]
            if refused:
                raise RuntimeError(f"a result was refused: {refused[0]}")

    def _turns(self) -> Iterator[int]:
        number = 0
        while True:
            yield number
            number = (number + 1) % len(self.bots)

    async def _post(self, number: int, path: str, body: Any) -> Any:
        _, token = self.bots[number]
        sent = msgspec.json.encode(body)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**24)
        head = (
            f"POST /api/crawl/{path}/ HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {token}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(sent)}\r\nconnection: close\r\n\r\n"
        )
        writer.write(head.encode() + sent)
        answer = await reader.read()
        writer.close()
        status, _, rest = answer.partition(b"\r\n\r\n")
        if not status.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"{status.splitlines()[0].decode()}: {rest[:300].decode()}")
        return msgspec.json.decode(rest)["data"]


def result_of(crawl: str) -> dict[str, Any]:
    price = 19.99 if crawl == "first crawl" else 18.49
    return {
        "success": True, "price": price, "currency": "USD", "title": "A lamp", "in_stock": True, "crawl_duration": 0.8,
    }  # fmt: skip


async def main() -> Table:
    folder = Path(tempfile.mkdtemp(prefix="opilio-bench-"))
    costs: dict[str, dict[str, Cost]] = {crawl: {} for crawl in CRAWLS}
    try:
        async with server() as server_url:
            url = await create_database(server_url, "cost")
            async with opilio_on(url) as opilio:
                await fill(url, PAGES, hosts=100, due=True)
                bots = await logins(opilio.database, BOTS)
            await run(url, "checkpoint")
            async with api(url, folder) as port:
                meter = Meter(url)
                meter.watched = [psutil.Process()]
                fleet = Fleet(port, bots)
                for crawl in CRAWLS:
                    costs[crawl] = await one_crawl(meter, fleet, url, folder, crawl)
                    await run(url, "update crawl_state set next_run_at = now() - interval '1 minute'")
            async with opilio_on(url) as opilio:
                asked = await allocations(opilio, result_of("nothing changed"), BATCH)
            sizes = await bytes_a_row(url, SIZES)
            async with opilio_on(url, keep_jobs_days=1) as opilio:
                await opilio.retention.run(datetime.now(UTC) + timedelta(days=3))
            sizes |= await bytes_a_row(url, OUTLIVED)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return report(costs, sizes, asked)


async def bytes_a_row(url: str, kinds: dict[str, tuple[str, ...]]) -> dict[str, float]:
    """Of each kind of row; a result and an event have rows of their own when their job is gone."""
    found = {}
    for what, tables in kinds.items():
        rows = await run(url, f"select count(*)::float8 from {tables[0]} where $1::boolean", True)
        found[what] = await run(url, _SIZE, list(tables)) / rows
    return found


async def one_crawl(meter: Meter, fleet: Fleet, url: str, folder: Path, crawl: str) -> dict[str, Cost]:
    steps: dict[str, Callable[[], Any]] = {
        "schedule": lambda: command(url, folder, "jobs", "create-due"),
        "pull": fleet.pull,
        "submit": lambda: fleet.submit(result_of(crawl)),
        "deliver": lambda: deliver(url, folder),
    }
    costs = {}
    for name in STEPS:
        before = await meter.read()
        answer = await steps[name]()
        if name == "pull" and answer != PAGES:
            raise RuntimeError(f"{answer} jobs were pulled, not {PAGES}")
        if name in HTTP_STEPS:
            await asyncio.sleep(IDLE_FLUSH)
        costs[name] = difference(before, await meter.read(), PAGES)
    return costs


def environment(url: str, folder: Path) -> dict[str, str]:
    plain = {key: value for key, value in os.environ.items() if not key.startswith("OPILIO_")}
    return plain | {
        "OPILIO_DATABASE_URL": url, "OPILIO_DATA_DIR": str(folder), "OPILIO_METRICS_PORT": "0", "OPILIO_LOG_LEVEL": "warning",
    }  # fmt: skip


async def command(url: str, folder: Path, *words: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "opilio", *words),
        env=environment(url, folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    _, said = await process.communicate()
    if process.returncode:
        raise RuntimeError(said.decode()[-2000:])


async def deliver(url: str, folder: Path) -> None:
    """The delivery role, until no event waits."""
    with role(url, folder, "delivery"):
        async with asyncio.timeout(120):
            while await run(url, "select count(*) from event_waiting where $1::boolean", True):
                await asyncio.sleep(0.2)


@contextmanager
def role(url: str, folder: Path, name: str) -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, "-m", "opilio", "run", name], env=environment(url, folder), stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def report(costs: dict[str, dict[str, Cost]], sizes: dict[str, float], asked: dict[str, float]) -> Table:
    columns = (
        "crawl",
        "step",
        "row writes",
        "WAL bytes",
        "index entries",
        "buffers",
        "PostgreSQL ms",
        "Python ms",
    )
    table = Table(f"Cost of one job, {PAGES:,} pages in batches of {BATCH}", columns)
    for crawl, steps in costs.items():
        whole = Cost()
        for step in STEPS:
            whole.add(steps[step])
            table.add(crawl, step, *figures(steps[step]))
        table.add(crawl, "all", *figures(whole))
        ranked = sorted(whole.tables.items(), key=lambda item: -item[1])
        named = ", ".join(f"{name} {writes:.2f}" for name, writes in ranked if writes >= 0.005)
        table.notes.append(f"{crawl}: {named}")
        if crawl in GOALS:
            most_writes, most_wal = GOALS[crawl]
            table.goal(f"{crawl}: row writes", whole.writes, at_most=most_writes)
            table.goal(f"{crawl}: WAL bytes", whole.wal, at_most=most_wal)
    memory = ", ".join(f"{step} {count:,.0f}" for step, count in asked.items())
    table.notes.append(f"nothing changed: allocations of memory in Python: {memory}")
    on_disk = ", ".join(f"{what} {size / 1e3:.2f} kB" for what, size in sizes.items())
    table.notes.append(f"on disk, with indexes: {on_disk}")
    return table


def figures(cost: Cost) -> tuple[float, ...]:
    return cost.writes, cost.wal, cost.index_entries, cost.buffers, cost.postgres, cost.python
