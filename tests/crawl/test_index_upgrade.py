"""Indexes are exchanged while others work, and an exchange that was cut short goes on."""

import asyncio

import asyncpg

from opilio.adapters.postgres import migrate
from tests.crawl.farm import Farm

BEFORE = "0029"
INDEXES = """
select indexname, indexdef from pg_indexes where tablename in ('crawl_state', 'job_archive') order by 1"""
INVALID = "select count(*) from pg_index where not indisvalid"


async def crawl(farm: Farm) -> None:
    await farm.due()
    for job in await farm.pull(most=3):
        await farm.submit(job, price=5, currency="USD")


async def test_an_exchange_waits_for_writers_and_lets_others_write(farm: Farm, database_url: str) -> None:
    await farm.policies(9)
    await crawl(farm)
    wanted = await farm.rows(INDEXES)
    await migrate.downgrade(database_url, BEFORE)
    before = {row["indexname"] for row in await farm.rows(INDEXES)}
    assert {"crawl_state_expiry", "job_archive_bot"} <= before
    writer = await asyncpg.connect(database_url)
    writing = writer.transaction()
    await writing.start()
    await writer.execute("update crawl_state set visits = visits where place = 'due'")
    upgrade = asyncio.create_task(migrate.upgrade(database_url))
    async with asyncio.timeout(20):
        while not await farm.value("select to_regclass('crawl_state_bot_locks')::text"):
            await asyncio.sleep(0.05)
    await crawl(farm)  # beside an index that is half made
    assert not upgrade.done()
    await writing.rollback()
    await writer.close()
    assert (await upgrade).up_to_date
    assert await farm.rows(INDEXES) == wanted
    assert await farm.value(INVALID) == 0
    await crawl(farm)
    assert await farm.value("select count(*) from job_archive") == 9


async def test_an_exchange_that_was_cut_short_goes_on(farm: Farm, database_url: str) -> None:
    wanted = await farm.rows(INDEXES)
    await migrate.downgrade(database_url, BEFORE)
    await farm.rows(
        "create index crawl_state_bot_locks on crawl_state (locked_by, locked_until) where place = 'locked'"
    )
    await farm.rows(
        "update pg_index set indisvalid = false where indexrelid = 'crawl_state_bot_locks'::regclass"
    )
    await farm.rows("create index job_archive_jobs_of_policy on only job_archive (policy_id)")
    await farm.rows("drop index crawl_state_expiry")
    await migrate.upgrade(database_url)
    assert await farm.rows(INDEXES) == wanted
    assert await farm.value(INVALID) == 0
