from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from opilio.adapters.postgres import migrate
from opilio.analytics.batch import analyse_batch
from opilio.analytics.message import read_message
from opilio.runtime.roles.analytics import _keeper
from opilio.runtime.settings import load_settings
from tests.analytics.batches import body, event, failed, post

TABLES = ("post_analytics", "post_comments", "crawl_errors", "post_identity", "analysed_batch")


async def test_down_and_up_again_with_data_in_place(processor, buckets, database, rows):
    await buckets.put(
        "crawl-results",
        "tiktok/proj_xyz/brand/batch_001.json",
        body(post(comments=[{"text": "hay"}]), failed("2")),
    )
    await processor.process(event())
    status = await migrate.status(database.url)
    script = status.head
    await migrate.downgrade(database.url, "0003")
    try:
        for table in TABLES:
            assert (await rows("select to_regclass($1)::text as name", table))[0]["name"] is None
        assert (await rows("select count(*) from outbox"))[0]["count"] == 1
    finally:
        await migrate.upgrade(database.url)
    assert (await migrate.status(database.url)).current == script
    for table in TABLES:
        assert (await rows(f"select count(*) from {table}"))[0]["count"] == 0


@pytest.mark.parametrize(
    ("table", "index"),
    [
        ("post_analytics", "idx_post_analytics_job_id"),
        ("post_analytics", "idx_post_analytics_fetch_status"),
        ("post_analytics", "idx_post_analytics_task_type"),
        ("crawl_errors", "idx_crawl_errors_project_id"),
        ("crawl_errors", "idx_crawl_errors_error_code"),
        ("crawl_errors", "idx_crawl_errors_created_at"),
    ],
)
async def test_the_indexes_of_the_contract(rows, table, index):
    assert await rows("select 1 from pg_indexes where tablename = $1 and indexname = $2", table, index)


async def test_rows_lie_in_the_partition_of_their_month(processor, buckets, rows):
    await buckets.put("crawl-results", "tiktok/proj_xyz/brand/batch_001.json", body(post()))
    await processor.process(event())
    (row,) = await rows("select tableoid::regclass::text as name from post_analytics")
    assert row["name"] == f"post_analytics_{datetime.now(UTC):%Y%m}01"


async def test_old_months_are_dropped_whole(store, rows):
    old = datetime.now(UTC) - timedelta(days=400)
    await store.prepare_months(old)
    assert await store.forget(datetime.now(UTC) - timedelta(days=200)) == 6
    assert await store.forget_errors(datetime.now(UTC) - timedelta(days=200)) == 3
    assert await store.forget(datetime.now(UTC) - timedelta(days=200)) == 0
    assert (
        await rows("select to_regclass($1) is not null as kept", f"post_analytics_{datetime.now(UTC):%Y%m}01")
    )[0]["kept"]


@pytest.mark.parametrize(
    ("days", "errors", "left", "errors_left"),
    [(0, None, 2, 2), (60, None, 1, 1), (0, 60, 2, 1), (60, 0, 1, 2)],
)
async def test_posts_are_kept_for_as_long_as_the_policy_says(
    store, rows, tmp_path, days, errors, left, errors_left
):
    """By the month: one that ended before the time goes whole, with its identities, comments and errors."""
    now = datetime.now(UTC)
    for name, at in (("old", now - timedelta(days=120)), ("new", now)):
        await store.prepare_months(at)
        inbound = read_message(event(f"r/{name}.json", name, batch_index=len(name)))
        items = [
            msgspec.json.encode(post(name, comments=[{"text": "hay"}])),
            msgspec.json.encode(failed(name * 2)),
        ]
        await store.store(inbound, analyse_batch(items, inbound.context, {}, at), at)
    await _keeper(store, load_settings(data_dir=tmp_path, keep_posts_days=days, keep_errors_days=errors))()
    assert (await rows("select count(*) as n from crawl_errors"))[0]["n"] == errors_left
    for table in ("post_comments", "analysed_batch"):
        assert (await rows(f"select count(*) as n from {table}"))[0]["n"] == left, table
    for table in ("post_analytics", "post_identity"):
        assert (await rows(f"select count(*) as n from {table}"))[0]["n"] == 2 * left, table
