import asyncio
import gzip
import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import asyncpg
import pytest
import zstandard
from structlog.testing import capture_logs

from opilio.adapters.buckets import Buckets, Missing
from opilio.analytics.processing import BatchProcessor, Disabled, Done, ProcessingOptions, Reject, RetryLater
from opilio.analytics.stages.document import Intent
from opilio.analytics.store import BatchStore
from opilio.contracts.codes import ErrorCode
from tests.analytics.batches import body, event, failed, post

BUCKET, KEY = "crawl-results", "tiktok/proj_xyz/brand/batch_001.json"


@pytest.fixture
def put(buckets):
    async def put(data, key=KEY, bucket=BUCKET):
        await buckets.put(bucket, key, data)

    return put


async def test_it_works(processor, put, rows):
    comments = [{"id": "c1", "text": "đẹp quá", "likes": 3}, {"text": "dở tệ"}, "not a comment"]
    await put(
        zstandard.compress(body(post(comments=comments), failed("2"), post("3", "Giá bao nhiêu vậy shop")))
    )
    outcome = await processor.process(event())
    assert isinstance(outcome, Done)
    assert (outcome.rows.counts.size, outcome.rows.counts.succeeded, outcome.rows.counts.failed) == (2, 2, 0)
    assert outcome.rows.counts.fetch_errors == 1
    first, second, third = await rows("select * from post_analytics order by id desc")
    assert (first["id"], first["project_id"], first["job_id"]) == (
        "7312345678901234567",
        "proj_xyz",
        "proj_xyz-brand-0",
    )
    assert (first["sentiment"], first["intent"], first["fetch_status"]) == ("positive", "praise", "success")
    assert (first["keyword_source"], first["keyword_role"], first["batch_index"]) == (
        "VinFast VF8",
        "brand",
        1,
    )
    assert first["author_id"] == "42"
    assert first["aspects"]["battery"]["sentiment"] == "positive"
    assert first["impact_score"] > 0
    assert first["impact_breakdown"]
    assert (second["id"], second["intent"]) == ("3", "purchase_intent")
    assert (third["id"], third["fetch_status"], third["error_code"]) == ("2", "error", "CONTENT_REMOVED")
    found = await rows("select comment_id, sentiment from post_comments order by likes desc")
    assert [comment["sentiment"] for comment in found] == ["positive", "negative"]


async def test_an_error_item_is_in_both_tables_with_its_category(processor, put, rows):
    await put(body(failed("1"), failed("2", "RATE_LIMITED"), failed("3", "SOMETHING_NEW")))
    await processor.process(event())
    errors = await rows(
        "select content_id, error_code, error_category, error_details from crawl_errors order by content_id"
    )
    assert [(e["error_code"], e["error_category"]) for e in errors] == [
        ("CONTENT_REMOVED", "content"),
        ("RATE_LIMITED", "rate_limiting"),
        ("SOMETHING_NEW", "generic"),
    ]
    assert errors[0]["error_details"] == {"http": 404}
    assert (await rows("select count(*) from post_analytics where fetch_status = 'error'"))[0]["count"] == 3


async def test_one_bad_item_does_not_affect_the_others(processor, put, rows):
    await put(b'[7, {"meta": {}}, {"meta": {"id": ""}}, ' + body(post("ok"))[1:])
    outcome = await processor.process(event())
    assert (outcome.rows.counts.succeeded, outcome.rows.counts.failed) == (1, 3)
    assert outcome.rows.errors_by_code == {"PARSE_ERROR": 3}
    assert [
        row["id"] for row in await rows("select id from post_analytics where fetch_status = 'success'")
    ] == ["ok"]


async def test_the_collector_is_notified_once_in_the_same_transaction(processor, put, rows):
    await put(body(post("1"), failed("2")))
    await processor.process(event())
    (told,) = await rows("select * from outbox where type = 'analyze_result'")
    assert told["data"] == {
        "project_id": "proj_xyz",
        "job_id": "proj_xyz-brand-0-analyze-batch-1",
        "task_type": "analyze_result",
        "batch_size": 1,
        "success_count": 1,
        "error_count": 0,
        "platform": "tiktok",
        "fetch_error_count": 1,
    }
    assert (told["exchange"], told["routing_key"]) == ("collector.results", "analytics.result")


async def test_a_batch_that_comes_again_changes_nothing(processor, put, rows):
    await put(body(post("1"), failed("2")))
    await processor.process(event())
    counts = "select (select count(*) from post_analytics), (select count(*) from crawl_errors), (select count(*) from outbox)"
    before = await rows(counts)
    for again in (event(), event(event_id="evt_other"), event(path="crawl-results/elsewhere.json")):
        outcome = await processor.process(again)
        assert isinstance(outcome, Done)
        assert outcome.rows is None
    assert await rows(counts) == before


async def test_ten_deliveries_at_once_count_once(processor, put, rows):
    await put(body(*(post(str(n)) for n in range(50)), failed("x")))
    outcomes = await asyncio.gather(*(processor.process(event()) for _ in range(10)))
    assert sum(outcome.rows is not None for outcome in outcomes) == 1
    assert (await rows("select count(*) from post_analytics"))[0]["count"] == 51
    assert (await rows("select count(*) from crawl_errors"))[0]["count"] == 1
    assert (await rows("select count(*) from outbox where type = 'analyze_result'"))[0]["count"] == 1


async def test_batches_that_share_posts_do_not_deadlock(processor, put, rows):
    for n in range(8):
        await put(body(*(post(str(i)) for i in (range(40) if n % 2 else reversed(range(40))))), f"b{n}.json")
    await asyncio.gather(
        *(processor.process(event(f"{BUCKET}/b{n}.json", f"e{n}", batch_index=n)) for n in range(8))
    )
    assert (await rows("select count(*) from post_analytics"))[0]["count"] == 40


async def test_a_later_crawl_updates_its_row_and_no_other_projects(processor, put, rows):
    old, new = {"crawled_at": "2026-05-02T00:00:00Z"}, {"crawled_at": "2026-05-03T00:00:00Z"}
    await put(body(post("1", "Hàng dở tệ", meta=old)), "a.json")
    await put(body(post("1", "Hàng đẹp, rất hài lòng", meta=new)), "b.json")
    await processor.process(event(f"{BUCKET}/a.json", "e1"))
    await processor.process(event(f"{BUCKET}/a.json", "e2", project_id="other", job_id="other-brand-0"))
    await processor.process(event(f"{BUCKET}/b.json", "e3", batch_index=2))
    found = await rows("select project_id, sentiment, batch_index from post_analytics order by project_id")
    assert [(row["project_id"], row["sentiment"], row["batch_index"]) for row in found] == [
        ("other", "negative", 1),
        ("proj_xyz", "positive", 2),
    ]


async def test_a_delayed_batch_does_not_undo_a_newer_crawl(processor, put, rows):
    await put(body(post("1", "mới, rất đẹp", meta={"crawled_at": "2026-05-03T00:00:00Z"})), "new.json")
    await put(body(post("1", "cũ, quá tệ", meta={"crawled_at": "2026-05-01T00:00:00Z"})), "old.json")
    await processor.process(event(f"{BUCKET}/new.json", "e1", batch_index=2))
    await processor.process(event(f"{BUCKET}/old.json", "e2", batch_index=1))
    assert (await rows("select content_text from post_analytics"))[0]["content_text"] == "mới, rất đẹp"


async def test_an_error_keeps_what_an_earlier_crawl_brought(processor, put, rows):
    await put(body(post("1", "Rất đẹp, hài lòng")), "a.json")
    await put(body(failed("1")), "b.json")
    await processor.process(event(f"{BUCKET}/a.json", "e1"))
    await processor.process(event(f"{BUCKET}/b.json", "e2", batch_index=2))
    (row,) = await rows("select fetch_status, error_code, sentiment, content_text from post_analytics")
    assert row == {
        "fetch_status": "error",
        "error_code": "CONTENT_REMOVED",
        "sentiment": "positive",
        "content_text": "Rất đẹp, hài lòng",
    }


async def test_the_last_of_two_equal_ids_in_a_batch_counts(processor, put, rows):
    await put(body(post("1", "một"), post("1", "hai")))
    outcome = await processor.process(event())
    assert outcome.rows.counts.succeeded == 2
    assert [row["content_text"] for row in await rows("select content_text from post_analytics")] == ["hai"]


async def test_a_dry_run_has_no_project_and_reports_no_progress(processor, put, rows):
    await put(body(post("1")))
    await processor.process(
        event(project_id=None, job_id="6f1c1f0e-8a51-4c7e-9a8e-0a4b6f3b2c11", task_type="dryrun_keyword")
    )
    assert [row["project_id"] for row in await rows("select project_id from post_analytics")] == [None]
    assert await rows("select * from outbox") == []


async def test_the_other_forms(processor, put, rows):
    await put(gzip.compress(json.dumps(post("1", meta={"job_id": "p9-brand-1"})).encode()), "one.json", "raw")
    assert isinstance(await processor.process(b'{"data_ref": {"bucket": "raw", "path": "one.json"}}'), Done)
    assert isinstance(
        await processor.process(json.dumps(post("2", meta={"job_id": "p9-brand-1"})).encode()), Done
    )
    assert [row["project_id"] for row in await rows("select project_id from post_analytics order by id")] == [
        "p9",
        "p9",
    ]


async def test_a_form_that_is_switched_off_stays_where_it_is(store, buckets, rows):
    processor = BatchProcessor(store, buckets, ProcessingOptions(new_mode=False, legacy_mode=True))
    assert isinstance(await processor.process(event()), Disabled)
    processor = BatchProcessor(store, buckets, ProcessingOptions(legacy_mode=False))
    assert isinstance(await processor.process(json.dumps(post()).encode()), Disabled)
    assert await rows("select * from post_analytics") == []


async def test_a_missing_batch_is_tried_again_then_counted_as_lost(processor, rows):
    waits = [await processor.process(event(), retries=n) for n in range(3)]
    assert [outcome.after.total_seconds() for outcome in waits] == [5, 10, 20]
    assert isinstance(await processor.process(event(), retries=3), Reject)
    (told,) = await rows("select data from outbox")
    assert (told["data"]["success_count"], told["data"]["error_count"], told["data"]["batch_size"]) == (
        0,
        3,
        3,
    )


async def test_a_lost_batch_that_is_replayed_is_stored_and_reported_again(processor, put, rows):
    await processor.process(event(), retries=3)
    await put(body(post("1")))
    outcome = await processor.process(event())
    assert outcome.rows.counts.succeeded == 1
    assert (await rows("select count(*) from post_analytics"))[0]["count"] == 1
    told = await rows("select data from outbox where type = 'analyze_result' order by seq")
    assert [(one["data"]["success_count"], one["data"]["error_count"]) for one in told] == [(0, 3), (1, 0)]
    assert len({one["data"]["job_id"] for one in told}) == 1  # the collector replaces the one by the other


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"not json", "not_an_array"),
        (b"[1,", "not_json"),
        (b"\x28\xb5\x2f\xfd" + b"\xff" * 40, "bad_compression"),
        (b"", "empty"),
    ],
)
async def test_an_unreadable_batch_goes_to_the_dead_letters_with_its_reason(processor, put, data, reason):
    await put(data)
    assert isinstance(await processor.process(event()), RetryLater)
    outcome = await processor.process(event(), retries=3)
    assert isinstance(outcome, Reject)
    assert reason in outcome.reason


async def test_a_bomb_is_given_up_at_once(processor, put, rows):
    await put(zstandard.compress(b"0" * (200 << 20)))
    outcome = await processor.process(event())
    assert isinstance(outcome, Reject)
    assert "too_large" in outcome.reason
    assert (await rows("select data from outbox"))[0]["data"]["error_count"] == 3


@pytest.mark.parametrize(
    "fault",
    [
        ConnectionRefusedError("no server"),
        asyncpg.AdminShutdownError("going down"),
        asyncpg.CannotConnectNowError("starting"),
    ],
)
@pytest.mark.parametrize("step", ["is_done", "store"])
async def test_a_database_that_is_away_loses_nothing(processor, put, monkeypatch, rows, *, fault, step):
    await put(body(post("1")))

    async def away(*_args, **_kwargs):
        raise fault

    with monkeypatch.context() as patched:
        patched.setattr(BatchStore, step, away)
        assert isinstance(await processor.process(event(), retries=50), RetryLater)
    assert isinstance(await processor.process(event()), Done)
    assert (await rows("select count(*) from post_analytics"))[0]["count"] == 1


async def test_a_crash_before_the_commit_leaves_nothing_behind(processor, put, monkeypatch, rows):
    await put(body(post("1"), failed("2")))

    async def crash(*_args, **_kwargs):
        raise asyncpg.ConnectionDoesNotExistError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(BatchStore, "_announce", crash)
        assert isinstance(await processor.process(event()), RetryLater)
    for table in ("post_analytics", "post_identity", "crawl_errors", "analysed_batch", "outbox"):
        assert (await rows(f"select count(*) from {table}"))[0]["count"] == 0
    assert isinstance(await processor.process(event()), Done)
    assert (await rows("select count(*) from post_analytics"))[0]["count"] == 2


class Brittle:
    """A stage of somebody's own that chokes on one text."""

    version = "brittle-1"

    def classify(self, documents):
        if any("boom" in document.text for document in documents):
            raise RuntimeError("cannot")
        return [Intent("discussion", 1.0, {}) for _ in documents]


async def test_a_stage_that_fails_affects_only_its_item(store, buckets, put, rows):
    await put(body(post("1"), post("2", "boom"), post("3")))
    options = ProcessingOptions(stages={"intent": "tests.analytics.test_processing:Brittle"})
    outcome = await BatchProcessor(store, buckets, options).process(event())
    assert (outcome.rows.counts.succeeded, outcome.rows.errors_by_code) == (2, {"INTERNAL_ERROR": 1})
    (error,) = await rows("select content_id, error_message from crawl_errors")
    assert (error["content_id"], error["error_message"]) == ("2", "RuntimeError: cannot")


async def test_the_work_can_be_done_in_other_processes(store, buckets, put, rows):
    await put(body(post("1"), post("2")))
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        outcome = await BatchProcessor(store, buckets, pool=pool).process(event())
    assert outcome.rows.counts.succeeded == 2


async def test_an_alert_is_raised_once_for_each_level(processor, put, rows):
    loud = {"interaction": {"views": 4_000_000, "likes": 300_000, "comments_count": 20_000, "shares": 50_000}}
    loud["author"] = {"followers": 2_000_000, "is_verified": True}
    text = "Xe bốc cháy giữa đường, hai người nhập viện, quá nguy hiểm, kêu gọi tẩy chay"
    for n in range(2):
        await put(body(post("1", text, **{key: dict(value) for key, value in loud.items()})), f"{n}.json")
        await processor.process(event(f"{BUCKET}/{n}.json", f"e{n}", batch_index=n))
    (alert,) = await rows("select * from event_log where type = 'analytics.alert.raised'")
    assert alert["subject"] == "proj_xyz"
    assert alert["data"]["risk_level"] == "critical"
    assert alert["data"]["post_id"] == "1"


async def test_nul_and_long_text_are_tamed(processor, put, rows):
    await put(body(post("1", "đẹp\x00 quá " + "a" * (1 << 20), meta={"permalink": "x\x00y"})))
    await processor.process(event())
    (row,) = await rows("select length(content_text) as size, flags, permalink from post_analytics")
    assert row["size"] <= 1 << 20
    assert "text_cut" in row["flags"]
    assert row["permalink"] == "xy"


def test_storage_must_be_of_a_known_kind():
    with pytest.raises(Exception, match="file:///"):
        Buckets("ftp://somewhere")


async def test_local_folders_are_buckets(tmp_path):
    buckets = Buckets(f"file://{tmp_path}")
    await buckets.put("one", "a/b.json", b"[]")
    assert [chunk async for chunk in buckets.chunks("one", "a/b.json")] == [b"[]"]
    assert (tmp_path / "one" / "a" / "b.json").read_bytes() == b"[]"
    for bucket, key in (("one", "gone.json"), ("two", "a.json")):
        with pytest.raises(Missing):
            [chunk async for chunk in buckets.chunks(bucket, key)]
    assert not (tmp_path / "two").exists()


TAXONOMY = {
    "rate_limiting": "RATE_LIMITED AUTH_FAILED ACCESS_DENIED",
    "content": "CONTENT_REMOVED CONTENT_NOT_FOUND CONTENT_UNAVAILABLE",
    "network": "NETWORK_ERROR TIMEOUT CONNECTION_REFUSED DNS_ERROR",
    "parsing": "PARSE_ERROR INVALID_URL INVALID_RESPONSE",
    "media": "MEDIA_DOWNLOAD_FAILED MEDIA_TOO_LARGE MEDIA_FORMAT_ERROR",
    "storage": "STORAGE_ERROR UPLOAD_FAILED DATABASE_ERROR",
    "generic": "UNKNOWN_ERROR INTERNAL_ERROR",
}


@pytest.mark.parametrize(("size", "levels"), [(51, ["warning"]), (50, []), (3, ["info"])])
async def test_a_batch_of_an_unexpected_size_is_logged_and_analysed(processor, put, rows, size, levels):
    await put(body(*(post(str(n)) for n in range(size))))
    with capture_logs() as logs:
        await processor.process(event())
    assert [log["log_level"] for log in logs if log["event"] == "analytics.unexpected_batch_size"] == levels
    assert len(await rows("select 1 from post_analytics")) == size


async def test_every_code_of_the_taxonomy_has_its_category_and_row(processor, put, rows):
    codes = {code: category for category, listed in TAXONOMY.items() for code in listed.split()}
    assert len(codes) == 21
    assert set(codes) == set(map(str, ErrorCode))
    await put(body(*(failed(code, code) for code in codes)))
    outcome = await processor.process(event())
    assert outcome.rows.errors_by_code == dict.fromkeys(codes, 1)
    found = await rows("select error_code, error_category from crawl_errors")
    assert {row["error_code"]: row["error_category"] for row in found} == codes
    kept = await rows("select id, error_code from post_analytics where fetch_status = 'error'")
    assert {row["id"]: row["error_code"] for row in kept} == {code: code for code in codes}
