"""Platforms that do not exist, and the whole way of a project through crawlers on them."""

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest
from obstore.store import LocalStore, MemoryStore, S3Store

from opilio.bus import Ack
from opilio.contracts.codes import ErrorCode
from opilio.contracts.collector import AnalyzeResult
from opilio.crawler import AmqpLink, Failed, Found, Item, Skipped
from opilio.crawler.conformance import RULES, ConformanceCheck, CrawlerMessage, TaskAnswers, find_violations
from opilio.crawler.simulator import NO_FAULTS, Faults, Platform, SimulatedCrawler
from tests.collector.world import QUICK, running, until
from tests.crawler.recording_link import RecordingLink, a_message, a_task


def test_the_same_seed_brings_the_same_posts():
    once, again = (list(Platform("tiktok", 7).search("iphone", 50)) for _ in range(2))
    assert once == again
    assert once != list(Platform("tiktok", 8).search("iphone", 50))
    assert once != list(Platform("youtube", 7).search("iphone", 50))


def test_posts_are_of_both_languages_with_comments_and_errors_of_every_code():
    yielded = [y for n in range(60) for y in Platform("tiktok", 7).search(f"keyword {n}", 500)]
    kinds = Counter(type(y) for y in yielded)
    assert set(kinds) == {Item, Failed, Skipped, Found}
    items = [y for y in yielded if isinstance(y, Item)]
    assert {item.meta["lang"] for item in items} == {"vi", "en"}
    assert any(item.comments for item in items)
    assert all(isinstance(item.id, str) and item.interaction["views"] > 0 for item in items)
    assert {y.code for y in yielded if isinstance(y, Failed)} == {code.value for code in ErrorCode}
    totals = [y.total for y in yielded if isinstance(y, Found)]
    assert min(totals) == 0
    assert sum(total < 50 for total in totals) > 5


async def test_troubles_of_every_kind():
    troubles = Faults(0.2, 0.1, 0.1, 0.1, 0.2, 0, 0)
    link = RecordingLink()
    crawler = SimulatedCrawler(Platform("tiktok"), link, MemoryStore(), faults=troubles, bucket="b")
    for number in range(150):
        assert await crawler.handle(a_message(a_task(limit=10, job_id=f"p-brand-{number}"))) == Ack()
    told = Counter(result["job_id"] for result in link.results())
    assert len(told) < 150  # the dead say nothing
    assert 2 in told.values()
    codes = {result["error"]["code"] for result in link.results() if not result["success"]}
    assert codes & {"SEARCH_FAILED", "RATE_LIMITED", "TIMEOUT", "NETWORK_ERROR"}
    assert codes & {"BLOCKED", "AUTH_FAILED", "INVALID_KEYWORD", "RATE_LIMITED_PERMANENT"}
    assert "CRAWL_PARTIAL" in codes


async def analyze_everything(world, batches: list[dict]) -> None:
    """Stands for analytics: every batch is analysed, error items are errors."""

    async def take(message):
        batch = msgspec.json.decode(message.body)["payload"]
        batches.append(batch)
        done = AnalyzeResult(
            project_id=batch["project_id"],
            job_id=f"{batch['job_id']}-analyze-batch-{batch['batch_index']}",
            platform=batch["platform"],
            task_type="analyze_result",
            batch_size=batch["content_count"] - batch.get("fetch_error_count", 0),
            success_count=batch["content_count"] - batch.get("fetch_error_count", 0),
            error_count=0,
        )
        await world.bus.publish("collector.results", "analytics.result", msgspec.json.encode(done))
        return Ack()

    await world.bus.consume("analytics.data.collected", take, prefetch=10)


@pytest.mark.parametrize("kind", ["embedded", "real"])
async def test_a_project_through_troubled_crawlers_ends(kind, request, database, tmp_path):
    quick = replace(QUICK, backoff=timedelta(seconds=0.1), task_timeout=timedelta(seconds=3))
    troubles = Faults(0.3, 0.1, 0.1, 0.1, 0.3, 0.1, 0.0)
    async with running(kind, database, request, quick) as world:
        if kind == "real":
            server = request.getfixturevalue("s3")
            store = S3Store(server.bucket, endpoint=server.url, access_key_id=server.access_key,
                            secret_access_key=server.secret_key, region="us-east-1",
                            client_options={"allow_http": True}, virtual_hosted_style_request=False)  # fmt: skip
            link = await AmqpLink.connect(request.getfixturevalue("rabbitmq_url"))
        else:
            store, link = LocalStore(tmp_path), world.bus
        stop, batches = asyncio.Event(), []
        crawlers = [
            SimulatedCrawler(Platform(name), link, store, faults=troubles, bucket="opilio")
            for name in ("tiktok", "youtube")
        ]
        work = [asyncio.create_task(crawler.run(stop)) for crawler in crawlers]
        await analyze_everything(world, batches)
        await world.create(brand_keywords=[f"keyword {n}" for n in range(15)], limit_per_keyword=20)
        state = await world.reaches(status="DONE", seconds=60)
        stop.set()
        await asyncio.gather(*work)
        if kind == "real":
            await link.close()
        assert state["tasks_done"] + state["tasks_errors"] == 30
        assert state["tasks_done"] > 15
        assert state["items_actual"] == state["analyze_total"] > 0
        attempts = {row["attempt"] for row in await world.rows("select distinct attempt from task")}
        assert {1, 2} <= attempts
        if kind == "real":
            assert await world.bus.depth("collector.results.dlq") == 0
        else:
            assert await world.rows("select reason from dead_letter") == []


async def test_the_sdk_s_own_crawler_keeps_every_rule_of_the_kit(rabbitmq_url, request, database, tmp_path):
    async with running("real", database, request) as world:
        link, stop = await AmqpLink.connect(rabbitmq_url), asyncio.Event()
        crawler = SimulatedCrawler(
            Platform("tiktok"), link, LocalStore(tmp_path), faults=NO_FAULTS, bucket="b"
        )
        work = asyncio.create_task(crawler.run(stop))
        violations = await ConformanceCheck(
            rabbitmq_url, "tiktok", store=LocalStore(tmp_path), timeout_seconds=15
        ).run("iphone")
        stop.set()
        await work
        await link.close()

        async def emptied() -> bool:
            return await world.bus.depth("crawler.tiktok.queue") == 0

        await until(emptied)
    assert violations == []


async def an_answer() -> TaskAnswers:
    link, store = RecordingLink(), MemoryStore()
    task = a_task(limit=30)
    crawler = SimulatedCrawler(Platform("tiktok"), link, store, faults=NO_FAULTS, bucket="b")
    await crawler.handle(a_message(task))
    kit = ConformanceCheck("", "tiktok", store=store)
    said = {
        "results": [CrawlerMessage(msgspec.json.encode(b), more["headers"] | MARKS) for _, k, b, more in link.published if k.endswith("result")],
        "events": [CrawlerMessage(msgspec.json.encode(b), more["headers"] | MARKS) for _, k, b, more in link.published if k == "data.collected"],
    }  # fmt: skip
    answer = TaskAnswers(task=task, **said)
    for event in answer.events:
        await kit._fetch(answer, event)
    return answer


MARKS = {"x-schema-version": 1, "x-trace-id": "t"}


def changed(answer: TaskAnswers, change) -> TaskAnswers:
    body = msgspec.json.decode(answer.results[0].body)
    change(body)
    answer.results[0].body = msgspec.json.encode(body)
    return answer


BREAKS = {
    "answers": lambda a: a.results.clear(),
    "readable": lambda a: changed(a, lambda b: b.pop("stats")),
    "attribution": lambda a: changed(a, lambda b: b.update(job_id="other")),
    "attempt": lambda a: changed(a, lambda b: b.update(attempt=2)),
    "headers": lambda a: a.results[0].headers.pop("x-trace-id"),
    "task_type": lambda a: changed(a, lambda b: b.update(task_type="x")),
    "requested_limit": lambda a: changed(a, lambda b: b["limit_info"].update(requested_limit=29)),
    "within_limit": lambda a: changed(a, lambda b: b["stats"].update(failed=100)),
    "error_code": lambda a: changed(a, lambda b: b.update(success=False)),
    "same_again": lambda a: setattr(a, "repeated", True),
    "announced": lambda a: a.events.clear(),
    "batch_readable": lambda a: a.batches.clear(),
    "batch_size": lambda a: a.batches.update({p: items * 3 for p, items in a.batches.items()}),
    "batch_meta": lambda a: next(iter(a.batches.values()))[0].pop("meta"),
    "completion_rate": lambda a: changed(a, lambda b: b["stats"].update(completion_rate=0.4)),
    "payload_length": lambda a: changed(a, lambda b: b["payload"].pop()),
    "required_meta": lambda a: changed(a, lambda b: b["payload"][0]["meta"].pop("platform")),
    "platform_limited": lambda a: changed(a, lambda b: b["limit_info"].update(platform_limited=True)),
    "stats_consistency": lambda a: changed(a, lambda b: b["stats"].update(skipped=1)),
}


@pytest.mark.parametrize("rule", sorted(BREAKS))
async def test_the_kit_names_the_rule_that_is_broken(rule):
    answer = await an_answer()
    assert find_violations(answer) == []
    BREAKS[rule](answer)
    assert rule in {violation.rule for violation in find_violations(answer)}


def test_every_rule_of_the_kit_is_tested():
    assert set(RULES) - set(BREAKS) == {"count_consistency"}  # a rule of analytics, not of crawlers
