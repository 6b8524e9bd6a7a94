"""Pull and submit over HTTP, beside pgbench running the same statements on the same database in the same run.

The pages were crawled a day before and are as they were: nearly every crawl is one of these. pgbench runs with one client, so one
transaction at a time, and with as many clients as there are bots. Then the same over HTTP with adaptive policies: each result teaches
the rule and plans the next visit; with pages that are crawled for the first time, whose values are all new; and from several processes of
the API, whose requests must share statements across them. Where the processor time of a job goes is noted.
"""

import asyncio
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Sequence
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

# Enough for a machine that does 50,000 in a second; pgbench and HTTP share those of fixed policies.
JOBS, HTTP_JOBS = scaled(2_000_000, 40_000), scaled(700_000, 20_000)
ROUNDS, SECONDS, WARM_UP = scaled(3, 1), scaled(5, 1), 1


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
WORKERS = 2
SEVERAL = f"{WORKERS} API processes, HTTP"
SPENDERS = ("PostgreSQL", "API", "bots")
Rates = dict[tuple[str, str], list[float]]


@dataclass(frozen=True)
class Side:
    """A database of waiting jobs, and bots for it."""

    url: str
    bots: list[str]


@dataclass(frozen=True)
class Driven:
    """Jobs in a second over HTTP, and the processor seconds of each job."""

    rate: float
    spent: dict[str, float]


async def main() -> Table:
    folder = Path(tempfile.mkdtemp(prefix="opilio-bench-"))
    rates: Rates = defaultdict(list)
    try:
        async with server() as server_url:
            postgres = await postmaster(server_url)
            fixed = await filled(server_url, "fixed")
            adaptive = await filled(server_url, "adaptive", jobs=HTTP_JOBS, schedule="adaptive")
            first = await filled(server_url, "first", jobs=HTTP_JOBS, crawled=False)
            for number in range(1, ROUNDS + 1):
                for name, case in CASES.items():
                    progress(f"round {number} of {ROUNDS}: {name}")
                    await measure_bare(name, fixed, folder, postgres, rates)
                    for how, workers in ((HTTP, 1), (SEVERAL, WORKERS)):
                        driven = await over_http(fixed, case, folder, postgres, workers)
                        rates[name, how].append(driven.rate)
                        for who, seconds in driven.spent.items():
                            rates[name, f"{how}: {who}"].append(seconds)
                    for how, side in ((ADAPTIVE, adaptive), (FIRST, first)):
                        rates[name, how].append((await over_http(side, case, folder, postgres)).rate)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return report(rates)


async def filled(
    server_url: str, name: str, *, jobs: int = JOBS, crawled: bool = True, schedule: str = "fixed"
) -> Side:
    url = await create_database(server_url, name)
    async with opilio_on(url) as opilio:
        await fill(url, jobs, jobs=True, crawled=crawled, schedule=schedule)
        bots = await logins(opilio.database, 64)
    await run(url, POOL)
    await settle(url)
    return Side(url, bots)


async def postmaster(server_url: str) -> psutil.Process:
    connection = await asyncpg.connect(server_url)
    try:
        found = psutil.Process(await connection.fetchval("select pg_backend_pid()")).parent()
        assert found is not None
        return found
    finally:
        await connection.close()


async def measure_bare(name: str, side: Side, folder: Path, postgres: psutil.Process, rates: Rates) -> None:
    case = CASES[name]
    rates[name, ONE].append(await bare(side, folder, case.batch, 1))
    before = processor_seconds(postgres)
    rates[name, MANY].append(await bare(side, folder, case.batch, case.bots))
    spent = processor_seconds(postgres) - before
    rates[name, f"{MANY}: PostgreSQL"].append(spent / (rates[name, MANY][-1] * SECONDS))


async def over_http(
    side: Side, case: Case, folder: Path, postgres: psutil.Process, workers: int = 1
) -> Driven:
    """One API at a time: three of them and 64 clients would be too many for the server."""
    bots = side.bots[: case.bots]
    async with api_process(side.url, folder / "api", workers) as (port, pid):
        watched = {"PostgreSQL": postgres, "API": psutil.Process(pid)}
        await loaded(port, bots, batch=case.batch, seconds=WARM_UP)
        before = {name: processor_seconds(process) for name, process in watched.items()}
        rate, of_bots = await loaded(port, bots, batch=case.batch, seconds=SECONDS)
        spent = {name: processor_seconds(process) - before[name] for name, process in watched.items()}
    return Driven(rate, {name: took / (rate * SECONDS) for name, took in (spent | {"bots": of_bots}).items()})


async def bare(side: Side, folder: Path, batch: int, clients: int) -> float:
    return await asyncio.to_thread(
        raw.jobs_per_second, side.url, folder, batch=batch, clients=clients, seconds=SECONDS
    )


def report(rates: Rates) -> Table:
    columns = (
        "how",
        ONE,
        MANY,
        HTTP,
        "times 1 client",
        "times as many clients",
        ADAPTIVE,
        "of fixed",
        FIRST,
        SEVERAL,
    )
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
            median(rates[name, SEVERAL]),
        )
        table.goal(
            f"{name}, beside pgbench with {case.clients} clients".replace(" 1 clients", " 1 client"),
            of(HTTP, ONE if case.clients == 1 else MANY),
            at_least=case.times,
        )
        table.goal(f"{name}: adaptive beside fixed", of(ADAPTIVE, HTTP), at_least=0.95)
        for how, who in ((HTTP, SPENDERS), (SEVERAL, SPENDERS), (MANY, SPENDERS[:1])):
            table.notes.append(
                f"{name}, {how}, processor time a job: {processor_note(rates, name, how, who)}"
            )
    return table


def processor_note(rates: Rates, name: str, how: str, who: Sequence[str]) -> str:
    return ", ".join(f"{one} {median(rates[name, f'{how}: {one}']) * 1e6:,.0f} µs" for one in who)
