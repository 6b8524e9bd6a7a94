"""Whatever a batch contains, every item becomes a row or an error and does not affect others."""

import json
import random

import pytest

from opilio.analytics.processing import Done, Reject
from tests.analytics.batches import body, event, failed, post

LONG = "é" * 5_000
DEEP = json.loads("[" * 400 + "]" * 400)
STRANGE = [
    None, True, -1, 0, 2**31, 2**63, 10**30, 1.5, -1e308, "", " ", "x", LONG, "a\x00b", "\ud83d", "nan", "inf", "1e999",
    "2026-05-01T00:00:00+23:59", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-23:59", 10**14, [], [None], ["a\x00"],
    {}, {"a": "\x00"}, DEEP, [LONG] * 3, "٣", "=cmd()",
]  # fmt: skip


def paths(value, at=()):
    yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inner:
        yield from paths(below, (*at, key))


def changed(item, chance):
    """One to three values replaced by strange ones."""
    for _ in range(chance.randint(1, 3)):
        path = chance.choice([path for path in paths(item) if path])
        place = item
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = chance.choice(STRANGE)
    return item


def full(number):
    meta = {
        "job_id": "p-brand-0", "task_type": "t", "lang": "vi", "permalink": "https://x.test", "keyword_source": "k",
        "crawled_at": "2026-05-02T00:00:00Z", "pipeline_version": "1", "error_code": "TIMEOUT", "error_message": "m",
        "error_details": {"a": 1}, "fetch_error": "f", "region": "VN",
    }  # fmt: skip
    content = {"transcription": "lời", "duration": 3.5, "hashtags": ["a"]}
    comment = {"id": "c", "text": "hay", "author_name": "B", "likes": 1, "created_at": 1_777_000_000}
    author = {"username": "u", "avatar_url": "https://x.test/a", "is_verified": True}
    item = post(f"f{number}", meta=meta, content=content, author=author, comments=[comment])
    return item if number % 3 else failed(f"f{number}")


@pytest.mark.parametrize("seed", range(8))
async def test_malformed_items_do_not_affect_the_others(processor, buckets, rows, seed):
    chance = random.Random(seed)
    strange = [changed(full(number), chance) for number in range(60)]
    data = json.dumps([post("first"), *strange, post("last")]).encode()
    await buckets.put("r", "1.json", data)
    outcome = await processor.process(event("r/1.json", content_count=62))
    assert isinstance(outcome, Done), outcome
    assert outcome.rows.counts.size + outcome.rows.counts.fetch_errors == 62
    kept = await rows("select id from post_analytics where fetch_status = 'success'")
    assert {"first", "last"} <= {row["id"] for row in kept}
    errors = await rows("select count(*) as n from crawl_errors")
    counts = outcome.rows.counts
    assert errors[0]["n"] == counts.failed + counts.fetch_errors


@pytest.mark.parametrize("seed", range(4))
async def test_strange_messages_are_processed_or_given_up_with_a_reason(processor, buckets, seed):
    chance = random.Random(seed)
    await buckets.put("r", "1.json", body(post("1")))
    for number in range(40):
        message = json.loads(event("r/1.json", f"e{seed}-{number}", brand_name="b", batch_index=number))
        outcome = await processor.process(json.dumps(changed(message, chance)).encode(), retries=3)
        assert isinstance(outcome, Done | Reject), outcome
        if isinstance(outcome, Reject):
            assert not outcome.reason.startswith("failed:"), outcome


async def test_an_unexpected_error_still_lets_the_project_finish(processor, buckets, rows, monkeypatch):
    """A mistake of ours: tried again, then kept as a dead letter, and counted as lost."""
    await buckets.put("r", "1.json", body(post("1")))

    async def mistaken(*_args):
        raise KeyError("ours")

    monkeypatch.setattr(processor._store, "store", mistaken)
    outcome = await processor.process(event("r/1.json"), retries=3)
    assert isinstance(outcome, Reject)
    assert "KeyError" in outcome.reason
    (told,) = await rows("select data from outbox where type = 'analyze_result'")
    assert told["data"]["error_count"] == 3
