"""Beside the peers: fetch and complete of the same payloads in the same run, each with its own defaults, durable.

Opilio does more for each job (a lock with a fence, the result, the policy's next run, value history, an event, all
in one transaction) and goes over HTTP.
"""

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

from tests.components.servers import RabbitMQ

from bench.api import api, load, logins
from bench.ground import STATES, create_database, fill, opilio_on, run, server
from bench.report import Table, median

ROUNDS, SECONDS, JOBS = 2, 6, 250_000
COUNTS = {"pgqueuer": 10_000, "procrastinate": 2_000, "celery": 10_000}
OURS = {"Opilio, 100 jobs a request, 4 bots": (100, 4), "Opilio, 1 job a request, 64 bots": (1, 64)}


async def worker(name: str, url: str, count: int) -> float:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.peer_workers", name, url, str(count)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, said = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{name}: {said.decode()[-2000:]}")
    return float(out.split()[-1])


async def main() -> Table:
    folder = Path(tempfile.mkdtemp(prefix="opilio-bench-"))
    broker = RabbitMQ()
    rates: dict[str, list[float]] = {name: [] for name in (*OURS, *COUNTS)}
    try:
        await asyncio.to_thread(broker.start)
        async with server() as server_url:
            url = await create_database(server_url, "ours")
            async with opilio_on(url) as opilio:
                await fill(url, JOBS, jobs=True)
                await run(url, STATES)
                bots = await logins(opilio.database, 64)
            async with api(url, folder) as port:
                for turn in range(ROUNDS):
                    for name, (batch, clients) in OURS.items():
                        rates[name].append(await load(port, bots[:clients], batch=batch, seconds=SECONDS))
                    for name, count in COUNTS.items():
                        where = (
                            broker.url
                            if name == "celery"
                            else await create_database(server_url, f"{name}_{turn}")
                        )
                        rates[name].append(await worker(name, where, count))
    finally:
        broker.remove()
        shutil.rmtree(folder, ignore_errors=True)
    return tell(rates)


def tell(rates: dict[str, list[float]]) -> Table:
    best = max(median(rates[name]) for name in COUNTS)
    table = Table(
        f"Fetch and complete, jobs/s, median of {ROUNDS} in turn", ("who", "jobs/s", "of the fastest peer")
    )
    for name, found in rates.items():
        table.add(name, median(found), median(found) / best)
    table.goal(
        "the better way of Opilio against the fastest peer",
        max(median(rates[name]) for name in OURS) / best,
        at_least=1.0,
    )
    return table
