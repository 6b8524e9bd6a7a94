"""The digest says what the posts say, whatever came again, and days are those of the project's zone."""

import asyncio
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import msgspec
import pytest

from opilio.adapters.postgres import migrate
from opilio.analytics.processing import BatchProcessor
from opilio.analytics.store import BatchStore
from opilio.insights.analytics import AnalyticsInsights
from opilio.insights.post_filter import PostFilter
from tests.analytics.batches import body, event, failed, post

# The same posts by another way: a span that is not made of whole days reads the posts themselves.
LIVE = PostFilter(since=datetime(2000, 1, 1, 0, 0, 1, tzinfo=UTC))
PRAISE, BLAME = "Pin trâu, rất đẹp, hài lòng", "Giao hàng chậm, quá tệ, thất vọng"


async def send(processor, buckets, name, *items, **payload):
    await buckets.put("r", f"{name}.json", body(*items))
    base = {"project_id": "p1", "job_id": "p1-brand-0", "keyword": "VF8", "batch_index": None}
    await processor.process(event(f"r/{name}.json", name, **(base | payload)))


def told(summary):
    """All but the highest impact of a keyword, which the digest keeps even when its post has lost it."""
    found = msgspec.to_builtins(summary)
    for keyword in found["top_keywords"]:
        del keyword["top_impact"]
    return found


async def same_as_posts(database):
    insights = AnalyticsInsights(database)
    quick, live = await insights.summary("p1"), await insights.summary("p1", LIVE)
    assert told(quick) == told(live)
    assert await insights.trends("p1") == await insights.trends("p1", LIVE)
    return quick


async def test_the_digest_equals_the_posts_after_every_batch(processor, buckets, database, rows):
    await send(
        processor, buckets, "a", post("1", PRAISE, comments=[{"text": "đẹp"}]), post("2", BLAME), failed("3")
    )
    assert (await same_as_posts(database)).analysed == 2
    again = post("1", BLAME, interaction={"views": 9_000_000}, comments=[{"text": "quá tệ"}])
    await send(processor, buckets, "b", again, failed("2"), post("3", "แบตหมดเร็วมาก ผิดหวัง"))
    summary = await same_as_posts(database)
    assert (summary.posts, summary.analysed, summary.languages) == (3, 3, {"vi": 2, "th": 1})
    await send(processor, buckets, "c", post("1", PRAISE, meta={"published_at": "2026-06-01T00:00:00Z"}))
    await same_as_posts(database)
    assert await rows("select 1 from post_digest where posts < 0 or views < 0 or negative < 0") == []


async def test_a_post_found_by_two_keywords_belongs_to_both(processor, buckets, database, rows):
    await send(processor, buckets, "a", post("1", PRAISE), post("2", BLAME))
    await send(processor, buckets, "b", post("1", PRAISE), job_id="p1-competitor-1", keyword="CX5")
    insights = AnalyticsInsights(database)
    voices = {(v.role, v.keyword): (v.posts, v.share_percent) for v in await insights.share_of_voice("p1")}
    assert voices == {("brand", "VF8"): (2, 66.67), ("competitor", "CX5"): (1, 33.33)}
    assert await insights.share_of_voice("p1", LIVE) == await insights.share_of_voice("p1")
    for role, keyword, ids in (("brand", "vf8", {"1", "2"}), ("competitor", "CX5", {"1"})):
        by_role = await insights.posts("p1", PostFilter(role=role))
        by_keyword = await insights.posts("p1", PostFilter(keyword=keyword))
        assert {p.id for p in by_role.items} == {p.id for p in by_keyword.items} == ids
    (first,) = await rows(
        "select first_seen <= last_seen as ok, role from post_keywords where keyword = 'CX5'"
    )
    assert first == {"ok": True, "role": "competitor"}


async def test_a_role_in_the_place_of_the_keyword_is_no_keyword(processor, buckets, database):
    """`"keyword_source": "brand"`, as the contract's own sample has it: the event names the keyword."""
    found = {"keyword_source": "brand"}
    await send(processor, buckets, "a", post("1", PRAISE, meta=found))
    await send(processor, buckets, "b", post("1", PRAISE, meta=found), job_id="p1-brand-1", keyword="VF9")
    await send(processor, buckets, "c", post("2", PRAISE, meta=found), job_id="by hand", keyword="VF3")
    await send(processor, buckets, "d", post("3", PRAISE, meta={"keyword_source": "VF5"}))
    voices = await AnalyticsInsights(database).share_of_voice("p1")
    assert {(v.role, v.keyword, v.posts) for v in voices} == {
        ("brand", keyword, 1) for keyword in ("VF3", "VF5", "VF8", "VF9")
    }


async def test_days_are_those_of_the_zone(database, buckets):
    processor = BatchProcessor(BatchStore(database, time_zone="Asia/Ho_Chi_Minh"), buckets)
    late = [
        post(str(n), PRAISE, meta={"published_at": at})
        for n, at in enumerate(("2026-05-01T16:59:00Z", "2026-05-01T17:01:00Z", "2026-05-02T10:00:00Z"))
    ]
    await send(processor, buckets, "a", *late)
    insights = AnalyticsInsights(database)
    zone = ZoneInfo("Asia/Ho_Chi_Minh")
    expected = [(datetime(2026, 5, 1, tzinfo=zone), 1), (datetime(2026, 5, 2, tzinfo=zone), 2)]
    assert [(point.at, point.posts) for point in await insights.trends("p1")] == expected
    assert [(point.at, point.posts) for point in await insights.trends("p1", LIVE)] == expected
    day = PostFilter(since=datetime(2026, 5, 2, tzinfo=zone), until=datetime(2026, 5, 3, tzinfo=zone))
    assert (await insights.figures("p1", day))["analysed"] == 2


async def test_down_and_up_again_makes_the_same_digest(processor, buckets, database):
    await send(
        processor, buckets, "a", post("1", PRAISE, comments=[{"text": "đẹp"}]), post("2", BLAME), failed("3")
    )
    before = await AnalyticsInsights(database).summary("p1")
    await migrate.downgrade(database.url, "0014")
    await migrate.upgrade(database.url)
    assert await AnalyticsInsights(database).summary("p1") == before
    await same_as_posts(database)


async def test_the_digest_follows_when_months_are_dropped(processor, store, buckets, database, rows):
    await send(processor, buckets, "a", post("1", PRAISE))
    await store.forget(datetime(2099, 1, 1, tzinfo=UTC))
    assert await rows("select 1 from post_digest") == []
    assert await rows("select 1 from post_keywords") == []


async def test_a_digest_that_was_left_wrong_is_mended_at_the_next_round_and_others_stay(
    processor, store, buckets, database, rows
):
    """A process may die after it dropped a month and before it made the digests again."""
    await send(processor, buckets, "a", post("1", PRAISE), post("2", BLAME))
    await send(processor, buckets, "b", post("3", PRAISE), project_id="p2", job_id="p2-brand-0")
    async with database.session() as session:
        await session.connection.execute("delete from post_analytics where project_id = 'p1' and id = '1'")
        await session.connection.execute("update post_digest set top_impact = 77 where project_id = 'p2'")
    assert await store.forget(datetime(2000, 1, 1, tzinfo=UTC)) == 0
    assert (await same_as_posts(database)).posts == 1
    assert await rows("select 1 from post_digest where project_id = 'p2' and top_impact <> 77") == []


@pytest.mark.parametrize("times", [20])
async def test_batches_side_by_side_lose_nothing(processor, buckets, database, times):
    posts = [post(str(n), PRAISE if n % 2 else BLAME) for n in range(10)]
    await asyncio.gather(
        *(send(processor, buckets, f"s{n}", *posts[n % 5 : n % 5 + 6]) for n in range(times))
    )
    await same_as_posts(database)
