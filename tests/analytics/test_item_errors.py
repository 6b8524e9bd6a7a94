"""What becomes of items that a crawler could not fetch or parse."""

from datetime import UTC, datetime

import pytest

from tests.analytics.batches import body, event, failed, post


async def test_a_post_without_its_media_is_analysed_by_its_text(processor, buckets, rows):
    item = post("1", "Pin tụt nhanh, quá tệ")
    item["meta"] |= {
        "fetch_status": "error",
        "error_code": "MEDIA_DOWNLOAD_FAILED",
        "error_message": "no video",
    }
    bare = failed("2", "MEDIA_TOO_LARGE", "no text either")
    await buckets.put("crawl-results", "tiktok/proj_xyz/brand/batch_001.json", body(item, bare, post("3")))
    done = await processor.process(event())
    assert (done.rows.counts.size, done.rows.counts.succeeded, done.rows.counts.fetch_errors) == (1, 1, 2)
    stored = await rows(
        "select id, sentiment, fetch_status, error_code, fetch_error from post_analytics order by id"
    )
    assert (stored[0]["sentiment"], stored[0]["fetch_status"], stored[0]["error_code"]) == (
        "negative", "success", "MEDIA_DOWNLOAD_FAILED",
    )  # fmt: skip
    assert (stored[1]["sentiment"], stored[1]["fetch_status"]) == (None, "error")
    errors = await rows(
        "select content_id, error_category, error_message from crawl_errors order by content_id"
    )
    assert [(row["content_id"], row["error_message"]) for row in errors] == [
        ("1", "no video"),
        ("2", "no text either"),
    ]


@pytest.mark.parametrize(
    ("meta", "code", "message"),
    [
        ({"fetch_error": {"code": "CONTENT_REMOVED", "message": "gone"}}, "CONTENT_REMOVED", "gone"),
        ({"fetch_error": "CONTENT_REMOVED"}, "CONTENT_REMOVED", "CONTENT_REMOVED"),
        ({"fetch_error": "the page is gone"}, "UNKNOWN_ERROR", "the page is gone"),
        ({"error_code": "TIMEOUT", "fetch_error": {"code": "X"}}, "TIMEOUT", ""),
        ({"fetch_error": {"code": "\0"}}, "UNKNOWN_ERROR", ""),
        ({"id": None}, "PARSE_ERROR", None),  # a search result without an id
        ({"permalink": 7, "fetch_error": ["?"]}, "PARSE_ERROR", None),
    ],
)
async def test_an_item_that_its_crawler_reports_as_failed_is_not_one_that_analysis_failed_on(
    processor, buckets, rows, meta, code, message
):
    """However crawlers write it: the collector does not wait for it, so it must not count as analysed."""
    item = {"meta": {"id": "1", "fetch_status": "error", **meta}}
    await buckets.put("crawl-results", "tiktok/proj_xyz/brand/batch_001.json", body(item, post("2")))
    done = await processor.process(event())
    counts = done.rows.counts
    assert (counts.size, counts.succeeded, counts.failed, counts.fetch_errors) == (1, 1, 0, 1)
    [error] = await rows("select error_code, error_message from crawl_errors")
    assert error["error_code"] == code
    assert message is None or error["error_message"] == message


@pytest.mark.parametrize(("bad", "told"), [(1, 0), (2, 1)])
async def test_many_parsing_errors_raise_an_event(processor, buckets, rows, bad, told):
    items = [*(post(str(n)) for n in range(20 - bad)), *(failed(f"x{n}", "PARSE_ERROR") for n in range(bad))]
    await buckets.put("crawl-results", "tiktok/proj_xyz/brand/batch_001.json", body(*items))
    await processor.process(event())
    found = await rows(
        "select subject, data::text from event_log where type = 'analytics.parsing_errors.exceeded'"
    )
    assert [row["subject"] for row in found] == ["proj_xyz"] * told
    if told:
        assert '"percent": 10.0' in found[0]["data"]


async def test_errors_are_kept_apart_from_posts(processor, store, buckets, rows):
    await buckets.put("crawl-results", "tiktok/proj_xyz/brand/batch_001.json", body(post("1"), failed("2")))
    await processor.process(event())
    assert await store.forget_errors(datetime(2099, 1, 1, tzinfo=UTC)) >= 1
    assert await rows("select 1 from crawl_errors") == []
    assert len(await rows("select 1 from post_analytics")) == 2
