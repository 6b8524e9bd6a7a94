"""Pull and submit over HTTP, beside pgbench running the same statements on the same database in the same run.

pgbench runs with one client, so one transaction at a time, and with as many clients as there are bots. Then the same over HTTP
with adaptive policies: each result teaches the rule and plans the next visit. Where the processor time of a job goes is noted.
"""

import asyncio
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import psutil

from bench import raw
from bench.api import api_process, loaded, logins
from bench.cost import processor_seconds
from bench.databases import POOL, VISITED, create_database, fill, opilio_on, run, server
from bench.report import Table, median, progress
from bench.size import scaled

JOBS, ROUNDS, SECONDS = scaled(900_000, 40_000), scaled(3, 1), scaled(8, 1)


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
ONE, MANY, HTTP, ADAPTIVE = "pgbench, 1 client", "pgbench, clients as bots", "HTTP", "adaptive, HTTP"
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
        async with server() as server_url:
            url, bots = await filled(server_url, "fixed")
            adaptive_url, adaptive_bots = await filled(server_url, "adaptive")
            postgres = await postmaster(server_url)
            async with (
                api_process(url, folder / "fixed") as (port, pid),
                api_process(adaptive_url, folder / "adaptive") as (other, other_pid),
            ):
                fixed = Side(url, bots, port, {"PostgreSQL": postgres, "API": psutil.Process(pid)})
                adaptive = Side(
                    adaptive_url,
                    adaptive_bots,
                    other,
                    {"PostgreSQL": postgres, "API": psutil.Process(other_pid)},
                )
                for number in range(1, ROUNDS + 1):
                    for name in CASES:
                        progress(f"round {number} of {ROUNDS}: {name}")
                        await measure(name, fixed, adaptive, folder, rates)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return report(rates)


async def postmaster(server_url: str) -> psutil.Process:
    connection = await asyncpg.connect(server_url)
    try:
        found = psutil.Process(await connection.fetchval("select pg_backend_pid()")).parent()
        assert found is not None
        return found
    finally:
        await connection.close()


async def measure(name: str, fixed: Side, adaptive: Side, folder: Path, rates: Rates) -> None:
    case = CASES[name]
    rates[name, ONE].append(await bare(fixed, folder, case.batch, 1))
    before = fixed.processor()
    rates[name, MANY].append(await bare(fixed, folder, case.batch, case.bots))
    spent = fixed.processor()["PostgreSQL"] - before["PostgreSQL"]
    rates[name, "PostgreSQL under pgbench"].append(spent / (rates[name, MANY][-1] * SECONDS))
    before = fixed.processor()
    rate, of_bots = await loaded(fixed.port, fixed.bots[: case.bots], batch=case.batch, seconds=SECONDS)
    rates[name, HTTP].append(rate)
    for who, seconds in fixed.processor().items():
        rates[name, who].append((seconds - before[who]) / (rate * SECONDS))
    rates[name, "bots"].append(of_bots / (rate * SECONDS))
    rate, _ = await loaded(adaptive.port, adaptive.bots[: case.bots], batch=case.batch, seconds=SECONDS)
    rates[name, ADAPTIVE].append(rate)


async def bare(side: Side, folder: Path, batch: int, clients: int) -> float:
    return await asyncio.to_thread(
        raw.jobs_per_second, side.url, folder, batch=batch, clients=clients, seconds=SECONDS
    )


async def filled(server_url: str, schedule: str) -> tuple[str, list[str]]:
    """A database of waiting jobs, each of a policy that was visited a day ago, and bots for it."""
    url = await create_database(server_url, schedule)
    async with opilio_on(url) as opilio:
        await fill(url, JOBS, jobs=True, schedule=schedule)
        for statement in (VISITED, POOL, "vacuum analyze crawl_state"):
            await run(url, statement)
        return url, await logins(opilio.database, 64)


def report(rates: Rates) -> Table:
    columns = ("how", ONE, MANY, HTTP, "times 1 client", "times as many clients", ADAPTIVE, "of fixed")
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
