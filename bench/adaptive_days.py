"""An adaptive fleet lives through two months in virtual time: real PostgreSQL, the real API, two schedulers, kills."""

from tests.crawl.adaptive.virtual_days import Pages, live, start_of_day

from bench.databases import create_database, opilio_on, server
from bench.report import Table, progress
from bench.size import scaled
from opilio.adapters.postgres import Statement
from opilio.clock import FixedClock
from opilio.runtime.bootstrap import wire

POLICIES, DAYS, SETTLED = scaled(2_000, 200), scaled(60, 8), 7


async def main() -> Table:
    async with server() as server_url:
        return await days_on(await create_database(server_url, "days"), POLICIES, DAYS, SETTLED)


async def days_on(url: str, policies: int, days: int, settled_after: int) -> Table:
    clock = FixedClock(start_of_day())
    async with opilio_on(url) as opilio:
        first, second = (wire(opilio.settings, opilio.database, clock) for _ in range(2))
        run = await live(first, second, clock, Pages.random(policies, days), days, progress=progress)
        done = await opilio.database.value(_count("job_archive where status = 'done'"))
        results = await opilio.database.value(_count("stored_result"))
    table = Table(
        f"{policies:,} adaptive policies, {days} virtual days", ("day", "crawls", "of budget", "price")
    )
    for day, (made, price) in enumerate(zip(run.per_day, run.prices, strict=True)):
        table.add(day, made, made / policies, f"{price:.4g}")
    settled = [abs(made / policies - 1) for made in run.per_day[settled_after:]]
    table.goal("farthest from the budget after a week", max(settled), at_most=0.02)
    table.goal("longest gap between visits, days", max(run.longest_gap.values()), at_most=30 * 1.05)
    table.goal(
        "accepted results that are not stored once", abs(done - run.accepted) + abs(results - done), at_most=0
    )
    return table


def _count(what: str) -> Statement:
    return Statement("count", f"select count(*) from {what}", ())
