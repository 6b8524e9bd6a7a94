"""A million due policies become jobs, beside a bare INSERT … SELECT of the same rows into the same table."""

import time

import asyncpg

from bench.databases import DUE, JOBS, create_database, fill, opilio_on, server
from bench.report import Table, median
from bench.size import scaled

POLICIES, ROUNDS = scaled(1_000_000, 1_000), 3


async def bare(url: str) -> float:
    """The floor: the rows alone, with the indexes of the table, in one transaction."""
    connection = await asyncpg.connect(url, command_timeout=600)
    try:
        began = time.perf_counter()
        await connection.execute(JOBS, False)
        return POLICIES / (time.perf_counter() - began)
    finally:
        await connection.close()


async def again(url: str, *, due: bool) -> None:
    """The table is as good as new: empty, or with every policy due once more."""
    connection = await asyncpg.connect(url, command_timeout=600)
    try:
        await connection.execute("truncate crawl_state")
        await connection.execute("set synchronous_commit = off")
        if due:
            await connection.execute(DUE)
        await connection.execute("vacuum analyze crawl_state")
        await connection.execute("checkpoint")
    finally:
        await connection.close()


async def main() -> Table:
    rates: dict[str, list[float]] = {"INSERT … SELECT": [], "create_due": []}
    async with server() as server_url:
        url = await create_database(server_url, "due")
        async with opilio_on(url) as opilio:
            await fill(url, POLICIES, due=True)
            for _ in range(ROUNDS):
                await again(url, due=False)
                rates["INSERT … SELECT"].append(await bare(url))
                await again(url, due=True)
                began = time.perf_counter()
                made = await opilio.scheduler.create_due()
                rates["create_due"].append(made.created / (time.perf_counter() - began))
                assert made.created == POLICIES
    table = Table(f"{POLICIES:,} due policies become jobs, median of {ROUNDS}", ("how", "jobs/s", "ratio"))
    for how, found in rates.items():
        ratios = [rate / floor for rate, floor in zip(found, rates["INSERT … SELECT"], strict=True)]
        table.add(how, median(found), median(ratios))
    table.goal("create_due against INSERT … SELECT, round by round", median(ratios), at_least=0.7)
    return table
