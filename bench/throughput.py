"""Pull and submit over HTTP, beside pgbench running the same statements on the same database in the same run.

The pages were crawled a day before and are as they were: nearly every crawl is one of these. pgbench runs with one client, so one
transaction at a time, and with as many clients as there are bots. Then the same over HTTP with adaptive policies: each result teaches
the rule and plans the next visit; and with pages that are crawled for the first time, whose values are all new. Where the processor time
of a job goes is noted.
"""

import asyncio
import shutil
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import psutil

from bench import raw
from bench.api import api_process, loaded, logins
from bench.cost import processor_seconds
from bench.databases import POOL, create_database, fill, opilio_on, run, server, settle
from bench.report import Table, median, progress
from bench.size import scaled

JOBS, FIRST_JOBS = scaled(900_000, 40_000), scaled(300_000, 20_000)
ROUNDS, SECONDS = scaled(3, 1), scaled(8, 1)


@dataclass(frozen=True)
class Case:
    """How many jobs a request and bots; how many times as fast as pgbench, of which number of clients."""

    batch: int
    bots: int
    times: float
    clients: int


# Batches from a few bots that keep the server busy, single jobs from many.
CASES = {
    "100 jobs a request, 4 bots": Case(100, 4, 0.6, clients=4),
    "1 job a request, 64 bots": Case(1, 64, 4.0, clients=1),
}
ONE, MANY, HTTP = "pgbench, 1 client", "pgbench, clients as bots", "HTTP"
ADAPTIVE, FIRST = "adaptive, HTTP", "first crawls, HTTP"
Rates = dict[tuple[str, str], list[float]]


@dataclass(frozen=True)
class Side:
    """A database with its API."""

    url: str
    bots: list[str]
    port: int
    watched: dict[str, psutil.Process]

    def processor(self) -> dict[str, float]:
        return {name: processor_seconds(process) for name, process in self.watched.items()}


async def main() -> Table:
    folder = Path(tempfile.mkdtemp(prefix="opilio-bench-"))
    rates: Rates = defaultdict(list)
    try:
        async with (
            server() as server_url,
            running(server_url, folder, "fixed") as fixed,
            running(server_url, folder, "adaptive", schedule="adaptive") as adaptive,
            running(server_url, folder, "first", jobs=FIRST_JOBS, crawled=False) as first,
        ):
            for number in range(1, ROUNDS + 1):
                for name in CASES:
                    progress(f"round {number} of {ROUNDS}: {name}")
                    await measure(name, fixed, folder, rates)
                    for how, side in ((ADAPTIVE, adaptive), (FIRST, first)):
                        rates[name, how].append((await over_http(side, CASES[name]))[0])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return report(rates)


@asynccontextmanager
async def running(
    server_url: str,
    folder: Path,
    name: str,
    *,
    jobs: int = JOBS,
    crawled: bool = True,
    schedule: str = "fixed",
) -> AsyncIterator[Side]:
    """A database of waiting jobs with bots for it, and an API that nobody uses yet."""
    url = await create_database(server_url, name)
    async with opilio_on(url) as opilio:
        await fill(url, jobs, jobs=True, crawled=crawled, schedule=schedule)
        bots = await logins(opilio.database, 64)
    await run(url, POOL)
    await settle(url)
    postgres = await postmaster(server_url)
    async with api_process(url, folder / name) as (port, pid):
        yield Side(url, bots, port, {"PostgreSQL": postgres, "API": psutil.Process(pid)})


async def postmaster(server_url: str) -> psutil.Process:
    connection = await asyncpg.connect(server_url)
    try:
        found = psutil.Process(await connection.fetchval("select pg_backend_pid()")).parent()
        assert found is not None
        return found
    finally:
        await connection.close()


async def measure(name: str, fixed: Side, folder: Path, rates: Rates) -> None:
    """Bare statements and HTTP on the same database, and the processor time of each."""
    case = CASES[name]
    rates[name, ONE].append(await bare(fixed, folder, case.batch, 1))
    before = fixed.processor()
    rates[name, MANY].append(await bare(fixed, folder, case.batch, case.bots))
    spent = fixed.processor()["PostgreSQL"] - before["PostgreSQL"]
    rates[name, "PostgreSQL under pgbench"].append(spent / (rates[name, MANY][-1] * SECONDS))
    before = fixed.processor()
    rate, of_bots = await over_http(fixed, case)
    rates[name, HTTP].append(rate)
    for who, seconds in fixed.processor().items():
        rates[name, who].append((seconds - before[who]) / (rate * SECONDS))
    rates[name, "bots"].append(of_bots / (rate * SECONDS))


async def over_http(side: Side, case: Case) -> tuple[float, float]:
    return await loaded(side.port, side.bots[: case.bots], batch=case.batch, seconds=SECONDS)


async def bare(side: Side, folder: Path, batch: int, clients: int) -> float:
    return await asyncio.to_thread(
        raw.jobs_per_second, side.url, folder, batch=batch, clients=clients, seconds=SECONDS
    )


def report(rates: Rates) -> Table:
    columns = ("how", ONE, MANY, HTTP, "times 1 client", "times as many clients", ADAPTIVE, "of fixed", FIRST)
    table = Table(f"Pull and submit, jobs/s, median of {ROUNDS} in turn", columns)
    for name, case in CASES.items():

        def of(one: str, other: str, name: str = name) -> float:
            pairs = zip(rates[name, one], rates[name, other], strict=True)
            return median([a / b for a, b in pairs])

        table.add(
            name,
            *(median(rates[name, how]) for how in (ONE, MANY, HTTP)),
            of(HTTP, ONE),
            of(HTTP, MANY),
            median(rates[name, ADAPTIVE]),
            of(ADAPTIVE, HTTP),
            median(rates[name, FIRST]),
        )
        table.goal(
            f"{name}, beside pgbench with {case.clients} clients".replace(" 1 clients", " 1 client"),
            of(HTTP, ONE if case.clients == 1 else MANY),
            at_least=case.times,
        )
        table.goal(f"{name}: adaptive beside fixed", of(ADAPTIVE, HTTP), at_least=0.95)
        table.notes.append(
            f"{name}, processor time a job: {processor_note(lambda who, name=name: rates[name, who])}"
        )  # type: ignore[misc]
    return table


def processor_note(spent: Callable[[str], list[float]]) -> str:
    who = ("PostgreSQL", "API", "bots", "PostgreSQL under pgbench")
    return ", ".join(f"{name} {median(spent(name)) * 1e6:,.0f} µs" for name in who)
