"""The rules of delivery, by properties: no database, no clock, no network."""

import json
import re
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from opilio.bus import DeadLetter, Retry, after_exception, standard_headers, topic_regex
from opilio.contracts.topology import task_queue, topology
from opilio.delivery.outbox.envelope import envelope
from opilio.delivery.webhooks import filters, retry, signature
from opilio.delivery.webhooks.health import (
    LONGEST_BACKOFF,
    PAUSED_AFTER,
    Health,
    HostLimits,
    Response,
    ResponseKind,
)
from opilio.errors import Invalid

NOW = datetime(2030, 1, 1, tzinfo=UTC)
words = st.text("abcxyz", min_size=1, max_size=3)
types = st.lists(words, min_size=1, max_size=4).map(".".join)


def _matches(patterns, event_type) -> bool:
    """As PostgreSQL applies the expression."""
    return re.match(filters.to_regex(patterns), event_type) is not None


@given(types)
def test_a_filter_matches_itself_and_everything_matches_a_star(event_type):
    assert _matches([event_type], event_type)
    assert _matches(["*"], event_type)
    assert not _matches([event_type + ".more"], event_type)


@given(types, types)
def test_a_filter_with_a_star_matches_what_begins_like_it(head, tail):
    assert _matches([f"{head}.*"], f"{head}.{tail}")
    assert not _matches([f"{head}.*"], head)


@given(st.lists(types, min_size=1, max_size=4), types)
def test_several_filters_match_what_any_of_them_matches(patterns, event_type):
    assert _matches(patterns, event_type) == any(_matches([p], event_type) for p in patterns)


@pytest.mark.parametrize("pattern", ["", ".", "a..b", "A.b", "a b", "a.b|c", "a.(b)", "x" * 201])
def test_a_filter_that_is_none_is_refused(pattern):
    with pytest.raises(Invalid):
        filters.checked([pattern])


def _topic(pattern: list[str], key: list[str]) -> bool:
    """The definition of AMQP, word by word."""
    if not pattern:
        return not key
    if pattern[0] == "#":
        return _topic(pattern[1:], key) or (bool(key) and _topic(pattern, key[1:]))
    return bool(key) and pattern[0] in ("*", key[0]) and _topic(pattern[1:], key[1:])


@given(
    st.lists(st.sampled_from(["a", "b", "*", "#"]), min_size=1, max_size=4),
    st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4),
)
def test_topic_patterns_match_as_amqp_says(pattern, key):
    assert bool(re.match(topic_regex(".".join(pattern)), ".".join(key))) == _topic(pattern, key)


@given(st.floats(0, 1, exclude_max=True))
def test_retries_begin_within_seconds_and_last_about_three_days(draw):
    waits = []
    while (wait := retry.next_wait(len(waits) + 1, None, draw)) is not None:
        waits.append(wait)
    assert timedelta(seconds=5) <= waits[0] <= timedelta(seconds=6)
    assert waits == sorted(waits)
    assert timedelta(hours=70) <= sum(waits, timedelta()) <= timedelta(hours=80)


@given(
    st.integers(1, len(retry.WAITS)),
    st.timedeltas(timedelta(0), timedelta(days=400)),
    st.floats(0, 1, exclude_max=True),
)
def test_retry_after_only_ever_lengthens_a_wait_and_not_for_ever(attempts, asked, draw):
    usual = retry.next_wait(attempts, None, draw)
    wait = retry.next_wait(attempts, asked, draw)
    assert wait == max(usual, min(asked, retry.LONGEST_RETRY_AFTER))


def test_retry_after_is_read_in_both_forms():
    assert retry.parse_retry_after("120", NOW) == timedelta(seconds=120)
    date = format_datetime(NOW + timedelta(minutes=3), usegmt=True)
    assert retry.parse_retry_after(date, NOW) == timedelta(minutes=3)
    assert retry.parse_retry_after("999999999999", NOW) == retry.LONGEST_RETRY_AFTER
    for nonsense in (None, "", "soon", "-5", "1.5", "٣"):
        assert retry.parse_retry_after(nonsense, NOW) is None


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.none()))
def test_what_is_signed_can_be_verified_with_any_valid_secret(data):
    old, new = signature.new_secret(), signature.new_secret()
    body = json.dumps(data, ensure_ascii=False).encode(errors="surrogatepass")
    try:
        body.decode()
    except UnicodeDecodeError:
        return
    sent = signature.headers("evt-1", datetime.now(UTC), body, [new, old])
    assert Webhook(old).verify(body, sent) == Webhook(new).verify(body, sent) == json.loads(body)


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_!!!", "whsec_YQ==", "abc", "whsec_" + "YQ" * 200])
def test_a_weak_or_broken_secret_is_refused(secret):
    with pytest.raises(Invalid):
        signature.checked_secret(secret)


@given(st.integers(100, 599))
def test_only_2xx_is_delivered(status):
    meaning = Response(status, 1).kind
    assert (meaning is ResponseKind.DELIVERED) == (200 <= status < 300)
    assert (meaning is ResponseKind.GONE) == (status == 410)
    assert (Response(status, 1).error_text is None) == (meaning is ResponseKind.DELIVERED)


@given(st.lists(st.sampled_from([200, 500, 429, None]), max_size=40))
def test_health_counts_failures_in_a_row_and_a_success_forgives(statuses):
    health = Health()
    for number, status in enumerate(statuses):
        at = NOW + timedelta(minutes=number)
        health = health.after(Response(status, 1), at)
        if health.closed_until is not None:
            assert timedelta(0) < health.closed_until - at <= LONGEST_BACKOFF
    in_a_row = next((n for n, s in enumerate(reversed(statuses)) if s == 200), len(statuses))
    assert health.failures == in_a_row
    assert (health.failing_since is None) == (in_a_row == 0)


def test_an_endpoint_has_failed_too_long_after_days_of_nothing_else():
    health = Health().after(Response(500, 1), NOW)
    assert not health.failed_too_long(NOW + PAUSED_AFTER - timedelta(seconds=1))
    assert health.failed_too_long(NOW + PAUSED_AFTER)
    assert not health.after(Response(204, 1), NOW).failed_too_long(NOW + PAUSED_AFTER)


def test_a_host_that_does_not_answer_gets_one_place_until_it_does():
    watch = HostLimits(8)
    for _ in range(5):
        watch.begin("a")
    assert watch.free() == {"a": 3}
    for _ in range(5):
        watch.end("a", [ResponseKind.UNREACHABLE])
    assert watch.free() == {"a": 1}
    watch.begin("a")
    assert watch.free() == {"a": 0}
    watch.end("a", [ResponseKind.FAILED])
    assert watch.free() == {}


def test_exact_numbers_stay_exact_in_the_envelope():
    body = envelope(
        event_id="e1",
        source="opilio",
        type_="t",
        subject="s",
        time=NOW,
        data='{"price": 12.3400000000000000001}',
    )
    assert b'"price": 12.3400000000000000001' in body
    event = json.loads(body)
    assert (event["specversion"], event["id"], event["datacontenttype"]) == ("1.0", "e1", "application/json")


def test_standard_headers_keep_a_trace_that_is_given():
    assert standard_headers({"x-trace-id": "t"})["x-trace-id"] == "t"
    assert standard_headers(None)["x-trace-id"] != standard_headers(None)["x-trace-id"]


def test_a_handler_that_keeps_failing_ends_in_a_dead_letter():
    waits = []
    for retries in range(10):
        verdict = after_exception(ValueError("x"), retries)
        assert isinstance(verdict, Retry)
        waits.append(verdict.after)
    assert waits == sorted(waits)
    assert isinstance(after_exception(ValueError("x"), 10), DeadLetter)


def test_the_topology_has_the_names_of_the_contract():
    found = topology()
    assert {e.name for e in found.exchanges} >= {
        "crawl.events",
        "collector.inbound",
        "collector.results",
        "smap.events",
    }
    names = {q.name for q in found.queues}
    assert names >= {
        "collector.inbound",
        "collector.results",
        "analytics.data.collected",
        "crawler.tiktok.queue",
        "crawler.youtube.queue",
    }
    queue = task_queue("tiktok")
    assert queue.delay_queue(timedelta(seconds=30)) == "crawler.tiktok.retry.30"
    assert queue.delay_queue(timedelta(seconds=31)) == "crawler.tiktok.retry.60"
    assert queue.delay_queue(timedelta(milliseconds=10)) == "crawler.tiktok.retry.0.25"
    assert queue.delay_queue(timedelta(days=9)) == "crawler.tiktok.retry.86400"
    dead = {q.dead_letter_queue for q in found.queues if q.dead_letters}
    assert dead >= {"collector.inbound.dlq", "collector.results.dlq", "analytics.data.collected.dlq"}
