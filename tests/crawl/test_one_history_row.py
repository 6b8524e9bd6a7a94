"""A job that is done is also its result and its event, and is read as each of them."""

import pytest

from opilio.delivery.outbox.relay import Relay
from opilio.delivery.outbox.routing import to_broker
from opilio.loop import drain
from tests.crawl.farm import Farm

READERS = {
    "the relay": "select seq, body from event_log where seq >= 5 and not handed_on order by seq limit 10",
    "the list of events": "select seq, body from event_log order by seq desc limit 10",
    "the list of results": "select result_id, price from stored_result order by result_id desc limit 10",
}


async def test_one_row_is_written(farm: Farm) -> None:
    await farm.submit(await farm.one())
    counts = "select (select count(*) from job_archive), (select count(*) from result), (select count(*) from event)"
    assert tuple((await farm.rows(counts))[0]) == (1, 0, 0)
    shown = "select (select count(*) from job), (select count(*) from stored_result), (select count(*) from event_log)"
    assert tuple((await farm.rows(shown))[0]) == (1, 1, 1)


@pytest.mark.parametrize("reader", READERS)
async def test_both_kinds_of_rows_are_read_in_order_without_sorting(farm: Farm, reader: str) -> None:
    async with farm.database.transaction() as session:
        await session.connection.execute("set local enable_seqscan = off")
        rows = await session.connection.fetch(f"explain (costs off) {READERS[reader]}")
    plan = "\n".join(row[0] for row in rows)
    assert "Merge Append" in plan
    assert "Sort  " not in plan
    assert "Seq Scan" not in plan
    assert "job_archive" in plan


async def test_a_failure_and_a_page_that_was_not_modified_have_an_event_of_their_own(farm: Farm) -> None:
    await farm.submit(await farm.one(max_retries=0))
    farm.later(days=2)
    await farm.due()
    (job,) = await farm.pull()
    await farm.submit(job, not_modified=True, price=None, currency=None)
    farm.later(days=2)
    await farm.due()
    (job,) = await farm.pull()
    await farm.fail(job)
    told = await farm.rows("select type, data ->> 'not_modified' as same from event_log order by seq")
    assert [tuple(row) for row in told] == [
        ("crawl.job.completed", "false"),
        ("crawl.job.completed", "true"),
        ("crawl.job.failed", None),
    ]
    assert await farm.value("select count(*) from event") == 2
    await farm.audit()


async def test_the_relay_hands_on_both_kinds_in_one_order(farm: Farm) -> None:
    done = await farm.one(max_retries=0)
    failed = await farm.one(max_retries=0)
    await farm.submit(done)
    await farm.fail(failed)
    assert await farm.value("select count(*) from event_waiting") == 2
    await drain(Relay(farm.database, to_broker).run_once)
    assert await farm.value("select count(*) from event_waiting") == 0
    sent = await farm.rows("select subject from outbound order by seq")
    assert [row["subject"] for row in sent] == [done.url, failed.url]
