"""The cost of a pull depends on how many jobs are asked for, not on how many wait.

The same pulls of ten, turn by turn, against a queue of 10 thousand jobs and one of 10 million; then again, after a
single host that may not be visited has got half a million of those, at the best priority of all. Then jobs pulled and submitted over HTTP,
before and after somebody else's transaction has been open for 90 seconds, so that nothing that ended since can be cleaned up.
"""

import tempfile
import time
from pathlib import Path

import asyncpg

from bench.api import api, load, logins
from bench.databases import create_database, fill, opilio_on, run, server
from bench.report import Table, percentile, progress
from bench.size import scaled
from opilio.crawl.pull import Pull
from opilio.runtime.bootstrap import Opilio

PULLS, WARM_UP = scaled(400, 10), scaled(50, 2)
BATCH, BOTS, SECONDS, PINNED_SECONDS = 100, 4, scaled(15, 1), scaled(90, 2)
SMALL, LARGE, BLOCKED = scaled(10_000, 1_000), scaled(10_000_000, 40_000), scaled(500_000, 500)

# A host that asked to be left alone for an hour, with half a million jobs that everybody would want first.
BLOCK = f"""
update host set gated = true, cooling_until = now() + interval '1 hour' where name = 'shop1.example';
update crawl_state j set host_id = h.host_id, place = 'gated', priority = 100
from host h, (select w.job_id from crawl_state w where w.place = 'free' order by w.job_id limit {BLOCKED}) chosen
where h.gated and j.job_id = chosen.job_id;
insert into gate (host_id, queue, top_priority, open_at) select host_id, 'http', 100, cooling_until from host where gated;
"""


async def pull(opilio: Opilio) -> float:
    began = time.perf_counter()
    answer = await opilio.puller.pull(Pull("bench", 10, ("http",)))
    took = time.perf_counter() - began
    assert answer.count == 10
    return took * 1000


async def in_turn(small: Opilio, large: Opilio) -> tuple[list[float], list[float]]:
    """Both queues in turn, so that whatever else the machine does falls on both."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(WARM_UP + PULLS):
        for opilio, kept in zip((small, large), times, strict=True):
            took = await pull(opilio)
            if turn >= WARM_UP:
                kept.append(took)
    return times


async def main() -> Table:
    table = Table(
        f"A pull of 10 jobs, {PULLS} times, in turn", ("queue", "p50 ms", "p99 ms", "p50 ratio", "p99 ratio")
    )
    async with server() as server_url:
        urls = [await create_database(server_url, name) for name in ("small", "large")]
        most = {"bot_max_locked": 10 * 2 * (WARM_UP + PULLS)}
        async with opilio_on(urls[0], **most) as small, opilio_on(urls[1], **most) as large:
            for url, jobs in zip(urls, (SMALL, LARGE), strict=True):
                await fill(url, jobs, jobs=True)
            report(table, f"{LARGE:,} pending", await in_turn(small, large))
            who = await logins(large.database, BOTS)
            await run(urls[1], BLOCK)
            await run(urls[1], "vacuum analyze crawl_state")
            report(table, f"{LARGE:,}, {BLOCKED:,} of them blocked", await in_turn(small, large))
        await pinned(table, urls[1], who)
    return table


async def pinned(table: Table, url: str, who: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with api(url, Path(folder)) as port:
            progress("without an open transaction")
            normal = await load(port, who, batch=BATCH, seconds=SECONDS)
            reader = await asyncpg.connect(url)
            try:
                async with reader.transaction(isolation="repeatable_read"):
                    await reader.fetchval("select count(*) from host")
                    progress(f"with a transaction that is open for {PINNED_SECONDS} s")
                    await load(port, who, batch=BATCH, seconds=PINNED_SECONDS - SECONDS)
                    at_the_end = await load(port, who, batch=BATCH, seconds=SECONDS)
            finally:
                await reader.close()
    table.notes.append(
        f"jobs/s over HTTP: {normal:,.0f}; at the end of {PINNED_SECONDS} s with an open transaction: {at_the_end:,.0f}"
    )
    table.goal("speed with an open transaction", at_the_end / normal, at_least=0.5)


def report(table: Table, name: str, times: tuple[list[float], list[float]]) -> None:
    (few50, few99), (many50, many99) = ((percentile(t, 0.5), percentile(t, 0.99)) for t in times)
    table.add(f"{SMALL:,} pending", few50, few99, 1.0, 1.0)
    table.add(name, many50, many99, many50 / few50, many99 / few99)
    table.goal(f"p99 with {name}", many99 / few99, at_most=1.5)
