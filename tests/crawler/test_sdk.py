"""An author's generator in, the contract out."""

import asyncio

import msgspec
import obstore
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from obstore.store import MemoryStore

from opilio.bus import Ack, DeadLetter, Message
from opilio.contracts import consistency
from opilio.contracts.collector import CrawlerResult
from opilio.crawler import Crawler, CrawlFailed, Failed, Found, Item, Skipped
from opilio.crawler.task_output import TaskOutput
from opilio.project_id import extract_project_id
from tests.crawler.recording_link import RecordingLink, a_message, a_task


def searching(*yields, then: Exception | None = None):
    async def search(task):
        for yielded in yields:
            yield yielded
        if then is not None:
            raise then

    return search


def posts(count: int, start: int = 0) -> list[Item]:
    return [Item(id=str(n), content={"text": "Đẹp quá"}) for n in range(start, start + count)]


async def crawl(search, task=None, store=None, **more):
    link, store = RecordingLink(), store or MemoryStore()
    task = task or a_task()
    crawler = Crawler(task.platform, search, link, store, bucket="crawl-data", **more)
    assert await crawler.handle(a_message(task)) == Ack()
    return link, store


async def stored(store, path: str) -> list[dict]:
    body = bytes(await (await obstore.get_async(store, path.partition("/")[2])).bytes_async())
    return msgspec.json.decode(zstandard.decompress(body))


async def test_a_full_task(monkeypatch):
    link, store = await crawl(searching(Found(total=400), *posts(70)), a_task("youtube", limit=50))
    [result] = link.results()
    assert result["limit_info"] == {
        "requested_limit": 50, "applied_limit": 50, "total_found": 400, "platform_limited": False,
    }  # fmt: skip
    assert result["stats"] == {"successful": 50, "failed": 0, "skipped": 0, "completion_rate": 0.125}
    assert (result["job_id"], result["platform"], result["attempt"]) == ("proj123-brand-0", "youtube", 1)
    assert result["payload"][0]["meta"]["task_type"] == "research_and_crawl"
    assert [event["content_count"] for event in link.events()] == [20, 20, 10]
    event = link.events()[0]
    assert (event["project_id"], event["batch_index"], event["keyword"]) == ("proj123", 1, "iphone")
    assert len(await stored(store, event["minio_path"])) == 20
    exchange, key, _, more = link.published[-1]
    assert (exchange, key, more["correlation_id"]) == (
        "collector.results",
        "crawler.youtube.result",
        "proj123-brand-0",
    )
    assert more["headers"] == {"x-job-id": "proj123-brand-0", "x-platform": "youtube", "x-attempt": 1}


async def test_errors_skips_and_repetitions_are_counted():
    yields = [*posts(3), Failed(id="x", code="CONTENT_REMOVED", message="gone"), Skipped(id="y"), *posts(1)]
    link, store = await crawl(searching(*yields))
    [result] = link.results()
    assert result["stats"] == {"successful": 3, "failed": 1, "skipped": 2, "completion_rate": 0.5}
    assert result["limit_info"]["platform_limited"] is True
    batch = await stored(store, link.events()[0]["minio_path"])
    assert [item["meta"]["fetch_status"] for item in batch] == ["success"] * 3 + ["error"]
    assert batch[3]["meta"]["error_code"] == "CONTENT_REMOVED"


async def test_nothing_found_is_a_success():
    link, _ = await crawl(searching())
    [result] = link.results()
    assert (result["success"], result["payload"], result["limit_info"]["total_found"]) == (True, [], 0)
    assert link.events() == []


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (CrawlFailed("BLOCKED", "captcha"), "BLOCKED"),
        (TimeoutError(), "TIMEOUT"),
        (ValueError("odd page"), "SEARCH_FAILED"),
    ],
)
async def test_a_failure_is_reported_by_its_code_and_acknowledged(raised, code):
    link, _ = await crawl(searching(then=raised))
    [result] = link.results()
    assert (result["success"], result["error"]["code"]) == (False, code)
    assert not result["limit_info"]["platform_limited"]


async def test_a_failure_in_the_middle_keeps_what_was_found():
    link, _ = await crawl(searching(*posts(4), then=CrawlFailed("RATE_LIMITED")))
    [result] = link.results()
    assert (result["error"]["code"], result["stats"]["successful"]) == ("CRAWL_PARTIAL", 4)
    assert [event["content_count"] for event in link.events()] == [4]


async def test_a_crawl_that_takes_too_long_is_ended():
    async def endless(task):
        await asyncio.Event().wait()
        yield

    link, _ = await crawl(endless, time_limit=0.05)
    assert link.results()[0]["error"]["code"] == "TIMEOUT"


async def test_what_cannot_be_stored_was_not_collected():
    link, _ = await crawl(searching(*posts(60)), a_task(limit=60), store=obstore.store.HTTPStore("http://127.0.0.1:9/", client_options={"allow_http": True}, retry_config={"max_retries": 0}))  # fmt: skip
    [result] = link.results()
    assert (result["error"]["code"], result["stats"]["successful"], link.events()) == ("UPLOAD_FAILED", 0, [])


async def test_the_same_task_again_is_answered_as_before_and_not_crawled():
    runs = 0

    async def search(task):
        nonlocal runs
        runs += 1
        yield Item(id=str(runs))

    link = RecordingLink()
    crawler = Crawler("tiktok", search, link, MemoryStore(), bucket="b")
    for _ in range(2):
        await crawler.handle(a_message(a_task()))
    assert runs == 1
    assert link.results()[0] == link.results()[1]
    await crawler.handle(a_message(a_task(attempt=2)))
    assert runs == 2


async def test_what_is_no_task_is_given_up():
    crawler = Crawler("tiktok", searching(), RecordingLink(), MemoryStore(), bucket="b")
    assert isinstance(await crawler.handle(Message(b"{}", "q", "", "q", "m")), DeadLetter)


def test_the_project_of_a_job():
    assert extract_project_id("proj-x-brand-0") == "proj-x"
    assert extract_project_id("3f2504e0-4f89-11d3-9a0c-0305e82c3301") is None
    assert extract_project_id("job") is None


yields = st.one_of(
    st.builds(lambda n: Item(id=str(n)), st.integers(0, 30)),
    st.builds(lambda n: Failed(id=f"f{n}", code="TIMEOUT"), st.integers(0, 9)),
    st.builds(lambda n: Skipped(id=f"s{n}"), st.integers(0, 9)),
    st.builds(lambda n: Found(total=n), st.integers(0, 100)),
)


@settings(max_examples=200)
@given(st.lists(yields, max_size=60), st.integers(1, 40), st.booleans())
def test_whatever_an_author_yields_the_result_keeps_the_rules(yielded, limit, fails):
    output = TaskOutput(a_task(limit=limit), version="v", applied_limit=limit)
    for one in yielded:
        output.add(one)
        if output.full:
            break
    result: CrawlerResult = output.result(CrawlFailed("BLOCKED") if fails else None)
    metas = [
        tuple(item["meta"][name] for name in ("job_id", "platform", "task_type")) for item in result.payload
    ]
    assert consistency.of_result(result.success, result.limit_info, result.stats, metas) == ()
