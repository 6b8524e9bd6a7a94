"""An adaptive fleet lives through two months in virtual time: real PostgreSQL, the real API, two schedulers, kills."""

from dataclasses import replace

from tests.crawl.adaptive.virtual_days import Pages, live, start_of_day

from bench.databases import create_database, opilio_on, server
from bench.report import Table
from bench.size import scaled
from opilio.clock import FixedClock
from opilio.runtime.bootstrap import wire

POLICIES, DAYS, SETTLED = scaled(2_000, 200), scaled(60, 8), 7


async def main() -> Table:
    clock = FixedClock(start_of_day())
    async with server() as server_url, opilio_on(await create_database(server_url, "days")) as opilio:
        first = wire(opilio.settings, opilio.database, clock)
        second = replace(wire(opilio.settings, opilio.database, clock))
        run = await live(first, second, clock, Pages.random(POLICIES, DAYS), DAYS)
        done = await opilio.database.value(_count("job_archive where status = 'done'"))
        results = await opilio.database.value(_count("result"))
    table = Table(
        f"{POLICIES:,} adaptive policies, {DAYS} virtual days", ("day", "crawls", "of budget", "price")
    )
    for day, (made, price) in enumerate(zip(run.per_day, run.prices, strict=True)):
        table.add(day, made, made / POLICIES, f"{price:.4g}")
    settled = [abs(made / POLICIES - 1) for made in run.per_day[SETTLED:]]
    table.goal("farthest from the budget after a week", max(settled), at_most=0.02)
    table.goal("longest gap between visits, days", max(run.longest_gap.values()), at_most=30 * 1.05)
    table.goal(
        "accepted results that are not stored once", abs(done - run.accepted) + abs(results - done), at_most=0
    )
    return table


def _count(what: str):
    from opilio.adapters.postgres import Statement

    return Statement("count", f"select count(*) from {what}", ())
