"""Pull and submit over HTTP, beside pgbench running the same statements on the same database in the same run.

Then the same with adaptive policies: each result teaches the rule and plans the next visit.
"""

import asyncio
import shutil
import tempfile
from collections import defaultdict
from pathlib import Path

from bench import raw
from bench.api import api, load, logins
from bench.databases import POOL, VISITED, create_database, fill, opilio_on, run, server
from bench.report import Table, median
from bench.size import scaled

JOBS, ROUNDS, SECONDS = scaled(900_000, 40_000), scaled(3, 1), scaled(8, 1)
# How many at once: batches from a few bots that keep the server busy, single jobs from many.
CASES = {"100 jobs a request, 4 bots": (100, 4), "1 job a request, 64 bots": (1, 64)}
GOALS = {"100 jobs a request, 4 bots": 0.6, "1 job a request, 64 bots": 4.0}
Rates = dict[tuple[str, str], list[float]]


async def main() -> Table:
    folder = Path(tempfile.mkdtemp(prefix="opilio-bench-"))
    rates: Rates = defaultdict(list)
    try:
        async with server() as server_url:
            url, bots = await filled(server_url, "fixed")
            adaptive_url, adaptive_bots = await filled(server_url, "adaptive")
            async with api(url, folder / "fixed") as port, api(adaptive_url, folder / "adaptive") as other:
                for _ in range(ROUNDS):
                    for case, (batch, clients) in CASES.items():
                        bare = await asyncio.to_thread(
                            raw.jobs_per_second, url, folder, batch=batch, clients=clients, seconds=SECONDS
                        )
                        rates[case, "pgbench"].append(bare)
                        rates[case, "HTTP"].append(
                            await load(port, bots[:clients], batch=batch, seconds=SECONDS)
                        )
                        rates[case, "adaptive"].append(
                            await load(other, adaptive_bots[:clients], batch=batch, seconds=SECONDS)
                        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return report(rates)


async def filled(server_url: str, schedule: str) -> tuple[str, list[str]]:
    """A database of waiting jobs, each of a policy that was visited a day ago, and bots for it."""
    url = await create_database(server_url, schedule)
    async with opilio_on(url) as opilio:
        await fill(url, JOBS, jobs=True, schedule=schedule)
        for statement in (VISITED, POOL, "vacuum analyze crawl_state"):
            await run(url, statement)
        return url, await logins(opilio.database, 64)


def report(rates: Rates) -> Table:
    table = Table(
        f"Pull and submit, jobs/s, median of {ROUNDS} in turn",
        ("how", "pgbench", "HTTP", "ratio", "adaptive, HTTP", "of fixed"),
    )
    for case in CASES:
        bare, real, adaptive = rates[case, "pgbench"], rates[case, "HTTP"], rates[case, "adaptive"]
        ratio = median([r / b for r, b in zip(real, bare, strict=True)])
        of_fixed = median([a / r for a, r in zip(adaptive, real, strict=True)])
        table.add(case, median(bare), median(real), ratio, median(adaptive), of_fixed)
        table.goal(case, ratio, at_least=GOALS[case])
        table.goal(f"{case}: adaptive beside fixed", of_fixed, at_least=0.95)
    return table
