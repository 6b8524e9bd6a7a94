"""Archived jobs go up to one row each and down to three again, in short steps and with nothing lost."""

import asyncio
from typing import Any

import asyncpg

from opilio.adapters.postgres import migrate
from tests.crawl.farm import Farm

BEFORE = "0024"
SHOWN = {
    "events": "select seq, event_id, type, subject, occurred_at, logged_at, data, convert_from(body, 'UTF8') as body from event_log order by seq",
    "results": "select * from crawl_result order by id",
    "jobs": """select job_id, policy_id, status, run_at, created_by, locked_by, locked_until, finished_at, finished_by, reason, result_id
      from job order by job_id""",
    "answers": "select job_id, archived_answer(a) as answer from job_archive a order by job_id",
}
MANY = 12_000
CARRIED = """
insert into job_archive (job_id, policy_id, host_id, queue, status, priority, base_priority, retry_count, max_retries, created_at, locked_by,
  locked_at, lock_ttl_seconds, lock_token, finished_at, next_run_at, outcome_id, seq, subject, price, currency)
select opilio_uuid7(), a.policy_id, a.host_id, a.queue, a.status, a.priority, a.base_priority, 0, 3, a.created_at, a.locked_by,
  a.locked_at, a.lock_ttl_seconds, gen_random_uuid(), a.finished_at, a.next_run_at, opilio_uuid7(), nextval('outbox_seq_seq'), a.subject, n, 'USD'
from job_archive a, generate_series(1, $1::int) n"""
TRANSACTIONS = "select count(distinct xmin::text) from job_archive"
WAITING = (
    "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
)
WRITTEN = "select tableoid::regclass::text, ctid::text, xmin::text from job_archive order by 1, 2"


async def crawl(farm: Farm, how: str, **found: Any) -> None:
    farm.later(days=2)
    await farm.due()
    for job in await farm.pull():
        await (farm.fail(job) if how == "fail" else farm.submit(job, **found))


async def shown(farm: Farm) -> dict[str, list[dict[str, Any]]]:
    return {what: [dict(row) for row in await farm.rows(sql)] for what, sql in SHOWN.items()}


async def test_everything_is_shown_alike_before_and_after(farm: Farm, database_url: str) -> None:
    await farm.policy(max_retries=0)
    await crawl(farm, "submit", price=20, currency="USD", title="Lamp", data={"sku": "7"}, html_hash="a" * 64)
    await crawl(farm, "submit", price=18, currency="USD", title='A "lamp"', raw_html="<p>18</p>")
    await crawl(farm, "submit", not_modified=True, price=None, currency=None)
    await crawl(farm, "fail")
    before = await shown(farm)
    assert [len(rows) for rows in before.values()] == [4, 2, 4, 4]
    await migrate.downgrade(database_url, BEFORE)
    assert await farm.value("select count(*) from event") == 4
    assert await shown(farm) == before
    await migrate.upgrade(database_url)
    assert await shown(farm) == before
    await crawl(farm, "submit", price=17)
    after = await shown(farm)
    assert {what: len(rows) for what, rows in after.items()} == {
        what: len(rows) + 1 for what, rows in before.items()
    }
    assert after["events"][:-1] == before["events"]
    await farm.audit()


async def test_many_jobs_go_down_in_short_transactions_and_up_without_being_written(
    farm: Farm, database_url: str
) -> None:
    await farm.policy()
    await crawl(farm, "submit", price=20, currency="USD")
    await farm.rows(CARRIED, MANY)
    await migrate.downgrade(database_url, BEFORE)
    assert await farm.value(TRANSACTIONS) >= MANY / 5_000
    counts = "select (select count(*) from event_log), (select count(*) from result), (select count(*) from job_archive)"
    assert tuple((await farm.rows(counts))[0]) == (MANY + 1,) * 3
    written = await farm.rows(WRITTEN)
    await migrate.upgrade(database_url)
    assert await farm.rows(WRITTEN) == written, "an upgrade adds columns and indexes; it rewrites no row"
    assert await farm.value("select count(*) from event_log") == MANY + 1


async def test_an_upgrade_that_was_cut_short_goes_on(farm: Farm, database_url: str) -> None:
    await farm.policy()
    await crawl(farm, "submit", price=20, currency="USD")
    before = await shown(farm)
    await migrate.downgrade(database_url, BEFORE)
    await farm.rows("alter table job_archive add column outcome_id uuid")
    await farm.rows(
        "create index job_archive_outcome on only job_archive (outcome_id) where outcome_id is not null"
    )
    await migrate.upgrade(database_url)
    assert await shown(farm) == before
    invalid = "select count(*) from pg_index where not indisvalid"
    assert await farm.value(invalid) == 0


async def test_whoever_reads_policies_and_then_writes_a_job_is_not_refused_while_it_goes_down(
    farm: Farm, database_url: str
) -> None:
    await farm.policy()
    await crawl(farm, "submit", price=20, currency="USD")
    reader, writer = [await asyncpg.connect(database_url) for _ in range(2)]
    reading = reader.transaction()
    await reading.start()
    await reader.fetch("select status from job")
    async with writer.transaction():
        await writer.fetch("select url from policy")
        going_down = asyncio.create_task(migrate.downgrade(database_url, BEFORE))
        while not await farm.value(WAITING):
            assert not going_down.done()
            await asyncio.sleep(0.01)
        writing = asyncio.create_task(writer.execute("update job_archive set priority = 7"))
        while not writing.done() and await farm.value(WAITING) < 2:
            await asyncio.sleep(0.01)
        await reading.rollback()
        await writing
    for connection in (reader, writer):
        await connection.close()
    await going_down
    await migrate.upgrade(database_url)
    assert await farm.value("select priority from job_archive") == 7
