"""History is dropped by age, a partition at a time."""

from datetime import UTC, datetime, timedelta

import pytest

from opilio.crawl.retention import Keep, Retention
from tests.crawl.farm import Farm


def retention(farm: Farm, **keep: int) -> Retention:
    return Retention(farm.database, farm.opilio.pages, Keep(**keep))


async def days(farm: Farm, table: str) -> list[str]:
    rows = await farm.rows(
        "select c.relname::text from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = $1::regclass", table
    )  # fmt: skip
    return sorted(row[0] for row in rows if not row[0].endswith("_other"))


async def test_it_works(farm: Farm) -> None:
    job = await farm.one()
    await farm.submit(job, raw_html="<p>")
    now = datetime.now(UTC)
    assert await retention(farm).run(now + timedelta(days=29)) != []  # pages of the first day
    assert (await farm.opilio.insights.job(job.job_id)).status == "done"
    results = await farm.rows("select * from stored_result")
    assert len(results) == 1
    await retention(farm).run(now + timedelta(days=32))
    assert await farm.value("select count(*) from job_archive") == 0
    assert await farm.rows("select * from stored_result") == results, (
        "results are kept for ever unless told otherwise"
    )


async def test_events_and_results_outlive_their_jobs(farm: Farm) -> None:
    await farm.submit(await farm.one(), title="Lamp", data={"sku": "7"})
    await farm.submit(await farm.one(), price=None, currency=None, data={"a": [1, None]})
    shown = {view: f"select * from {view} order by 1" for view in ("event_log", "stored_result")}
    before = {view: await farm.rows(sql) for view, sql in shown.items()}
    await retention(farm, jobs=1).run(farm.clock.at + timedelta(days=29))
    assert await farm.value("select count(*) from job_archive") == 0
    assert {view: await farm.rows(sql) for view, sql in shown.items()} == before
    await retention(farm, jobs=1).run(farm.clock.at + timedelta(days=32))
    assert len(await farm.rows(shown["stored_result"])) == 2


async def test_a_result_that_is_too_old_goes_with_its_job(farm: Farm) -> None:
    await farm.submit(await farm.one())
    await retention(farm, results=7).run(farm.clock.at + timedelta(days=32))
    assert await farm.value("select count(*) from stored_result") == 0


async def test_old_cooling_periods_are_dropped(farm: Farm) -> None:
    await farm.fail(await farm.one(), error_code="RATE_LIMITED", retry_after=60)
    await retention(farm).run(farm.clock.at + timedelta(days=90))
    assert await farm.value("select count(*) from host_cooling") == 1
    await retention(farm).run(farm.clock.at + timedelta(days=91))
    assert await farm.value("select count(*) from host_cooling") == 0


async def test_the_days_ahead_are_prepared(farm: Farm) -> None:
    now = datetime(2027, 1, 31, 23, tzinfo=UTC)
    await retention(farm).run(now)
    made = await days(farm, "job_archive")
    assert {"job_archive_20270131", "job_archive_20270201", "job_archive_20270203"} <= set(made)
    months = await days(farm, "result")
    assert {"result_20270101", "result_20270201", "result_20270301"} <= set(months), (
        "February is not stepped over"
    )


async def test_twice_is_once(farm: Farm) -> None:
    now = datetime.now(UTC)
    await retention(farm).run(now)
    before = await days(farm, "job_archive")
    assert await retention(farm).run(now) == []
    assert await days(farm, "job_archive") == before


async def test_a_day_without_a_partition(farm: Farm) -> None:
    """The scheduler was away for a week: what came in is kept, and moves to its day when that is made."""
    farm.later(days=7)
    job = await farm.one(max_retries=1)
    await farm.fail(job)
    farm.later(minutes=5)
    (job,) = await farm.pull()
    await farm.submit(job, raw_html="<p>")
    for table in ("job_archive", "job_step", "result_html"):
        assert await farm.value(f"select count(*) from {table}_other") > 0
    await retention(farm).run(farm.clock.at)
    for table in ("job_archive", "job_step", "result_html"):
        assert await farm.value(f"select count(*) from {table}_other") == 0
        assert await farm.value(f"select count(*) from {table}") > 0
    assert await farm.walk(job.job_id) == ["pending", "locked", "pending", "locked", "done"]
    farm.later(days=1)
    assert (await farm.one()).job_id != job.job_id


async def test_strays_are_dropped_too(farm: Farm) -> None:
    farm.later(days=-400)
    job = await farm.one()
    await farm.submit(job)
    farm.later(days=400)
    await retention(farm, results=30).run(farm.clock.at)
    for table in ("job_archive", "result"):
        assert await farm.value(f"select count(*) from {table}") == 0


async def test_late_results_have_an_age_of_their_own(farm: Farm) -> None:
    job = await farm.one()
    farm.later(seconds=601)
    await farm.submit(job)
    await retention(farm).run(farm.clock.at + timedelta(days=29))
    assert await farm.value("select count(*) from late_result") == 1
    await retention(farm).run(farm.clock.at + timedelta(days=31))
    assert await farm.value("select count(*) from late_result") == 0


async def test_a_deleted_policy_goes_when_nothing_refers_to_it(farm: Farm) -> None:
    kept = await farm.one()
    await farm.submit(kept)
    gone = await farm.policy()
    await farm.opilio.policies.delete([gone, (await farm.opilio.insights.job(kept.job_id)).policy_id])
    await retention(farm).run(farm.clock.at + timedelta(days=31))
    assert await farm.value("select count(*) from policy") == 1


async def test_large_pages_are_dropped_from_object_storage(farm: Farm) -> None:
    job = await farm.one()
    await farm.submit(job, raw_html="x" * 300_000)
    key = await farm.value("select blob_key from result_html")
    await retention(farm).run(datetime.now(UTC) + timedelta(days=9))
    with pytest.raises(FileNotFoundError):
        await farm.opilio.pages.get_page(key)


async def test_nothing_of_the_hot_tables_is_touched(farm: Farm) -> None:
    await farm.policies(3)
    await farm.due()
    await farm.pull(most=1)
    await retention(farm).run(datetime.now(UTC) + timedelta(days=300))
    assert await farm.value("select count(*) from job_active") == 3
