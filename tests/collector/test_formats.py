import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opilio.collector.formats import Envelope, Unreadable, fallback, read
from opilio.collector.result import Analysis, Result
from opilio.contracts.consistency import DESCRIPTIONS, RULES
from tests.collector.samples import analyzed, encoded, item, v2


def read_it(body, **envelope):
    return read(encoded(body), Envelope(**envelope))


def test_version_2():
    result = read_it(v2(found=30, failed=2))
    assert (result.format, result.platform, result.job_id) == ("v2", "tiktok", "proj123-brand-0")
    assert (result.successful, result.failed, result.total_found) == (28, 2, 30)
    assert result.platform_limited


def test_the_old_format_falls_back():
    body = {"success": True, "task_type": "x", "payload": [item(), item(id_="2")]}
    result = read_it(body)
    assert (result.format, result.successful, result.failed, result.total_found) == ("old", 2, 0, 2)
    assert (result.job_id, result.platform, result.attempt) == ("proj123-brand-0", "tiktok", None)
    failed = read_it({**body, "success": False})
    assert (failed.successful, failed.failed) == (0, 2)


def test_a_result_with_half_of_the_new_fields_is_the_old_format():
    half = v2(found=50)
    half["stats"] = None
    assert (read_it(half).format, read_it(half).successful) == ("old", 0)


@given(st.booleans(), st.integers(0, 1000))
def test_the_fallback_is_the_contract_s(success, length):
    limit, stats = fallback(success, length)
    assert (stats.successful, stats.failed) == ((length, 0) if success else (0, length))
    assert stats.completion_rate == (1.0 if success and length else 0.0)
    assert (limit.requested_limit, limit.applied_limit, limit.total_found) == (0, 0, length)
    assert not limit.platform_limited


def test_the_flat_format():
    body = {
        "job_id": "proj123-brand-0",
        "task_type": "research_keyword",
        "status": "failed",
        "bookmark": 17,
        "metrics": {"successful": 3, "failed": 1},
        "error_code": "RATE_LIMITED",
        "attempt": 2,
        "emitted_at": "2025-01-01T12:00:00Z",
    }
    result = read_it(body, routing_key="crawler.youtube.result")
    assert (result.format, result.success, result.code) == ("flat", False, "RATE_LIMITED")
    assert (result.platform, result.attempt, result.cursor) == ("youtube", 2, "17")
    assert (result.successful, result.failed) == (3, 1)
    assert read_it({**body, "status": "completed"}, routing_key="crawler.youtube.result").code is None


def test_an_analysis():
    read = read_it({**analyzed(1, 8, 2), "fetch_error_count": 3, "crawl_id": "run", "size_known": False})
    assert (read.project_id, read.job_id) == ("proj123", "proj123-brand-0-analyze-batch-1")
    assert (read.success_count, read.error_count, read.fetch_error_count) == (8, 2, 3)
    assert (read.crawl_id, read.size_known, read.violations) == ("run", False, ())
    assert read_it({**analyzed(1, 8, 2), "batch_size": 11}).violations == ("count_consistency",)
    tiktok = read_it({**analyzed(1, 8, 2), "platform": "tiktok"})
    youtube = read_it(analyzed(1, 8, 2), headers={"x-platform": "youtube"})
    assert [one.platform for one in (tiktok, youtube, read_it(analyzed(1, 8, 2)))] == [
        "tiktok",
        "youtube",
        "",
    ]


@pytest.mark.parametrize(
    ("root", "headers", "correlation_id", "routing_key", "meta", "expected"),
    [
        (("j-a-0", "p1"), {"x-job-id": "j-b-0", "x-platform": "p2"}, "j-c-0", "crawler.p3.result", "p4", ("p1", "j-a-0")),
        (("", ""), {"x-job-id": "j-b-0", "x-platform": "p2"}, "j-c-0", "crawler.p3.result", "p4", ("p2", "j-b-0")),
        (("", ""), {}, "j-c-0", "crawler.p3.result", "p4", ("p3", "j-c-0")),
        (("", ""), {}, None, "crawler.p3.result", "p4", ("p3", "j-d-0")),
        (("", ""), {}, None, "odd", "p4", ("p4", "j-d-0")),
    ],
)  # fmt: skip
def test_the_first_place_that_names_the_project_counts(
    root, headers, correlation_id, routing_key, meta, expected
):
    body = v2(root=False, found=1)
    body["payload"] = [item("j-d-0", meta)]
    body |= {"job_id": root[0] or None, "platform": root[1] or None}
    result = read_it(body, headers=headers, correlation_id=correlation_id, routing_key=routing_key)
    assert (result.platform, result.job_id) == expected


def test_the_attempt_may_be_in_a_header():
    assert read_it(v2(attempt=None), headers={"x-attempt": 2}).attempt == 2
    assert read_it(v2(attempt=None), headers={"x-attempt": "nonsense"}).attempt is None


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\xff", "cannot be decoded"),
        (b"[]", "cannot be decoded"),
        (b"{}", "unknown format"),
        (encoded({**v2(), "stats": {**v2()["stats"], "failed": -1}}), "cannot be decoded"),
        (encoded({**v2(), "success": "yes"}), "cannot be decoded"),
        (encoded(v2(root=False)), "no job_id"),
        (encoded({**v2(), "platform": None}), "no platform"),
        (encoded({**v2(), "job_id": "a\0b"}), "job_id"),
        (encoded({**analyzed(1, 1, 0), "task_type": "analyse"}), "task_type"),
        (encoded({**analyzed(1, 1, 0), "error_count": -1}), "cannot be decoded"),
        (encoded({**analyzed(1, 1, 0), "project_id": ""}), "project_id"),
        (encoded({"job_id": "j", "platform": "p", "status": "who knows"}), "status"),
        (encoded({"job_id": "j", "platform": "p", "status": "ok", "metrics": {"failed": "2"}}), "metrics.failed"),
        (b'{"a":' * 2000 + b"1" + b"}" * 2000, "cannot be decoded"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_says_why(body, reason):
    with pytest.raises(Unreadable, match=reason):
        read(body, Envelope())


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("stats_consistency", lambda b: b["stats"].update(skipped=3)),
        ("platform_limited", lambda b: b["limit_info"].update(platform_limited=False)),
        ("completion_rate", lambda b: b["stats"].update(completion_rate=0.5)),
        ("payload_length", lambda b: b["payload"].pop()),
        ("required_meta", lambda b: b["payload"][0].pop("meta")),
    ],
)
def test_each_rule_that_is_broken_is_named(rule, change):
    body = v2(found=30, failed=2, items=True)
    assert read_it(body).violations == ()
    change(body)
    assert read_it(body).violations == (rule,)
    assert rule in RULES
    assert DESCRIPTIONS[rule]


def test_the_scenarios_of_the_contract_break_no_rule():
    assert read_it(v2(found=50, items=True)).violations == ()
    assert read_it(v2(found=0)).violations == ()
    failed = v2(found=0, success=False, code="SEARCH_FAILED")
    assert not failed["limit_info"]["platform_limited"]
    assert read_it(failed).violations == ()


def test_equal_bodies_have_equal_digests_and_a_long_cursor_is_shortened():
    assert read_it(v2()).digest == read_it(v2()).digest != read_it(v2(failed=1)).digest
    assert len(read_it(v2(cursor="x" * 4000)).cursor) < 100
    assert read_it({**v2(), "crawl_id": "run-1", "emitted_at": "2026-01-15T10:00:00Z"}).crawl_id == "run-1"


def test_a_crawler_may_say_that_it_has_begun():
    body = {"job_id": "j", "platform": "tiktok", "task_type": "x", "status": "started"}
    assert read_it(body).started


def outcome(body: bytes, envelope: Envelope) -> Result | Analysis | str:
    try:
        return read(body, envelope)
    except Unreadable as refused:
        return str(refused)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = [*v2(), *analyzed(1, 1, 0), "status", "metrics", "bookmark", "error_code"]
KEYS = ["analytics.result", "crawler.x.result"]


@settings(suppress_health_check=[HealthCheck.too_slow])  # the first text builds Hypothesis's tables
@given(st.dictionaries(st.sampled_from(FIELDS), json_values), st.sampled_from(KEYS))
def test_whatever_comes_is_read_or_refused_with_a_reason(body, routing_key):
    assert outcome(msgspec.json.encode(body), Envelope(routing_key))


@given(st.data())
def test_mutated_bytes_are_read_or_refused_with_a_reason(data):
    body = bytearray(encoded(v2(items=True, found=2)))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    assert outcome(bytes(body), Envelope("crawler.tiktok.result", None, {"x-attempt": 1}))
