"""Pull and submit over HTTP, beside pgbench running the same statements on the same database in the same run."""

import asyncio
import shutil
import tempfile
from collections import defaultdict
from pathlib import Path

from bench import raw
from bench.api import api, load, logins
from bench.ground import STATES, create_database, fill, opilio_on, run, server
from bench.report import Table, median

JOBS, ROUNDS, SECONDS = 900_000, 3, 8
# How many at once: batches from a few bots that keep the server busy, single jobs from many.
CASES = {"100 jobs a request, 4 bots": (100, 4), "1 job a request, 64 bots": (1, 64)}
GOALS = {"100 jobs a request, 4 bots": 0.5, "1 job a request, 64 bots": 1.0}


async def main() -> Table:
    folder = Path(tempfile.mkdtemp(prefix="opilio-bench-"))
    rates: dict[tuple[str, str], list[float]] = defaultdict(list)
    try:
        async with server() as server_url:
            url = await create_database(server_url, "throughput")
            async with opilio_on(url) as opilio:
                await fill(url, JOBS, jobs=True)
                await run(url, STATES)
                bots = await logins(opilio.database, 64)
            async with api(url, folder) as port:
                for _ in range(ROUNDS):
                    for case, (batch, clients) in CASES.items():
                        bare = await asyncio.to_thread(
                            raw.jobs_per_second, url, folder, batch=batch, clients=clients, seconds=SECONDS
                        )
                        rates[case, "pgbench"].append(bare)
                        rates[case, "HTTP"].append(
                            await load(port, bots[:clients], batch=batch, seconds=SECONDS)
                        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return tell(rates)


def tell(rates: dict[tuple[str, str], list[float]]) -> Table:
    table = Table(f"Pull and submit, jobs/s, median of {ROUNDS} in turn", ("how", "pgbench", "HTTP", "ratio"))
    for case in CASES:
        bare, real = rates[case, "pgbench"], rates[case, "HTTP"]
        ratio = median([r / b for r, b in zip(real, bare, strict=True)])
        table.add(case, median(bare), median(real), ratio)
        table.goal(case, ratio, at_least=GOALS[case])
    return table
