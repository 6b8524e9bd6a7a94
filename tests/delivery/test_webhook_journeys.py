"""Webhooks from event to receiver, on a real database and real sockets; time moves when a test says so."""

from datetime import timedelta
from uuid import UUID

import msgspec
import pytest
from standardwebhooks import WebhookVerificationError

from opilio.contracts.webhooks import EndpointPatch, ReplayRequest, SecretRotation
from opilio.delivery.webhooks import signature
from opilio.delivery.webhooks.client import WebhookClient
from opilio.errors import Invalid, NotFound
from tests.delivery.receiver import Receiver, Reply
from tests.delivery.world import ANYWHERE, World, number


@pytest.fixture
async def world(db):
    async with WebhookClient(ANYWHERE, limit=timedelta(seconds=0.5)) as client:
        yield World(db, client)


@pytest.fixture
async def receiver():
    async with Receiver() as receiver:
        yield receiver


async def test_it_works(world, receiver):
    endpoint = await world.subscribe(receiver.url())
    await world.emit("https://shop.test/1", price=1.10)
    await world.relay_all()
    assert await world.send_all() == 1
    [got] = receiver.got
    event = got.verified_by(endpoint.secret)
    assert event["type"] == "crawl.job.completed"
    assert event["specversion"] == "1.0"
    assert event["subject"] == "https://shop.test/1"
    assert b'"price": 1.1' in got.body or b'"price":1.1' in got.body
    assert event["id"] == got.id
    page = await world.webhooks.attempts(endpoint.id)
    [attempt] = page.items
    assert (attempt.status, attempt.outcome, attempt.answer, attempt.attempt) == (200, "delivered", "ok", 1)
    assert attempt.latency_ms > 0
    assert attempt.webhook_id == got.id


async def test_only_events_that_are_wanted_are_sent(world, receiver):
    await world.subscribe(receiver.url("/jobs"), ["crawl.job.failed", "analytics.*"])
    await world.subscribe(receiver.url("/all"), ["*"])
    for type_ in ("crawl.job.completed", "crawl.job.failed", "analytics.alert.raised"):
        await world.emit(type_=type_)
    await world.relay_all()
    await world.send_all()
    seen = {(got.path, msgspec.json.decode(got.body)["type"]) for got in receiver.got}
    assert seen == {
        ("/jobs", "crawl.job.failed"),
        ("/jobs", "analytics.alert.raised"),
        ("/all", "crawl.job.completed"),
        ("/all", "crawl.job.failed"),
        ("/all", "analytics.alert.raised"),
    }


async def test_a_failure_is_tried_again_within_seconds_with_the_same_id(world, receiver):
    endpoint = await world.subscribe(receiver.url())
    receiver.replies.append(Reply(500, body=b"x" * 3000))
    await world.emit(n=1)
    await world.relay_all()
    await world.send_all()
    assert await world.pass_(seconds=4) == 0
    assert await world.pass_(seconds=2) == 1
    first, second = receiver.got
    assert (first.id, first.body) == (second.id, second.body)
    page = await world.webhooks.attempts(endpoint.id)
    assert [(a.attempt, a.status, a.outcome) for a in page.items] == [
        (2, 200, "delivered"),
        (1, 500, "retrying"),
    ]
    assert page.items[1].answer == "x" * 1024
    assert page.items[1].error == "answered 500"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_a_failure_and_is_not_followed(world, receiver, status):
    endpoint = await world.subscribe(receiver.url("/moved"))
    receiver.replies.append(Reply(status, {"location": receiver.url("/elsewhere")}))
    await world.emit()
    await world.relay_all()
    await world.send_all()
    assert [got.path for got in receiver.got] == ["/moved"]
    [attempt] = (await world.webhooks.attempts(endpoint.id)).items
    assert attempt.outcome == "retrying"
    assert "redirects are not followed" in attempt.error


async def test_no_answer_in_time_is_a_failure(world, receiver):
    endpoint = await world.subscribe(receiver.url())
    receiver.replies.append(Reply(delay=2))
    await world.emit()
    await world.relay_all()
    await world.send_all()
    [attempt] = (await world.webhooks.attempts(endpoint.id)).items
    assert (attempt.status, attempt.outcome) == (None, "retrying")
    assert "no answer within" in attempt.error


async def test_retry_after_is_honoured_for_the_delivery_and_for_the_endpoint(world, receiver):
    await world.subscribe(receiver.url())
    receiver.replies.append(Reply(429, {"retry-after": "120"}))
    await world.emit("a", n=1)
    await world.relay_all()
    await world.send_all()
    await world.emit("b", n=2)
    await world.relay_all()
    assert await world.pass_(seconds=110) == 0
    assert await world.pass_(seconds=15) == 2


async def test_gone_switches_the_endpoint_off_and_an_event_says_so(world, receiver):
    watcher = await world.subscribe(receiver.url("/watcher"), ["webhook.endpoint.*"])
    endpoint = await world.subscribe(receiver.url())
    receiver.replies.append(Reply(410))
    await world.emit()
    await world.relay_all()
    await world.send_all()
    found = await world.webhooks.get(endpoint.id)
    assert (found.status, found.enabled, found.status_reason) == ("disabled", False, "it answered 410 Gone")
    await world.emit()
    await world.relay_all()
    await world.send_all()
    assert [got.path for got in receiver.got] == ["/hook", "/watcher"]
    told = receiver.got[1].verified_by(watcher.secret)
    assert told["type"] == "webhook.endpoint.disabled"
    assert told["data"]["endpoint_id"] == str(endpoint.id)


async def test_retries_go_on_for_three_days_and_end_in_a_dead_letter(world, receiver):
    endpoint = await world.subscribe(receiver.url())
    receiver.usual = Reply(400, body=b"no")
    await world.emit(n=1)
    await world.relay_all()
    await world.send_all()
    began = world.clock.at
    while not await world.rows("select 1 from dead_letter"):
        await world.pass_(minutes=10)
        assert world.clock.at - began < timedelta(days=4)
    assert timedelta(hours=70) < world.clock.at - began < timedelta(hours=80)
    assert len(receiver.got) == 13
    [letter] = await world.rows("select * from dead_letter")
    assert letter["queue"] == "webhooks.dlq"
    assert letter["reason"] == "answered 400, the last of 13 attempts"
    assert letter["body"] == receiver.got[0].body
    assert (await world.webhooks.get(endpoint.id)).pending == 0


async def test_order_per_subject_holds_while_one_of_it_fails(world, receiver):
    """A delivery that waits for its retry holds back its own subject, and no other."""
    await world.subscribe(receiver.url(), max_concurrent=1)
    receiver.usual = lambda got: Reply(500 if number(got) == 1 and len(receiver.got) < 3 else 200)
    await world.emit_many([("a", "crawl.job.completed", {"n": 1}), ("a", "crawl.job.completed", {"n": 2})])
    await world.emit_many([("b", "crawl.job.completed", {"n": n}) for n in (3, 4)])
    await world.relay_all()
    await world.send_all()
    assert [number(got) for got in receiver.got] == [1, 3, 4]
    await world.pass_(seconds=10)
    assert [number(got) for got in receiver.got] == [1, 3, 4, 1, 2]


async def test_an_endpoint_is_not_asked_for_more_at_once_than_it_takes(world, receiver):
    await world.subscribe(receiver.url(), max_concurrent=3)
    receiver.usual = Reply(delay=0.02)
    await world.emit_many([(f"s{n}", "crawl.job.completed", {"n": n}) for n in range(20)])
    await world.relay_all()
    await world.send_all()
    assert len(receiver.got) == 20
    assert receiver.most_at_once == 3


async def _fail_until_paused(world, endpoint_id) -> None:
    while (await world.webhooks.get(endpoint_id)).status == "active":
        await world.pass_(hours=1)


async def test_an_endpoint_that_fails_for_long_is_paused_says_so_and_catches_up(world, receiver):
    endpoint = await world.subscribe(receiver.url())
    receiver.usual = Reply(503)
    for day in range(7):
        await world.emit(f"day{day}", n=day)
        await world.relay_all()
        await world.send_all()
        if day == 4:  # logged before the pause begins, handed on after it
            await world.emit("behind", n=7)
            await _fail_until_paused(world, endpoint.id)
        for _ in range(24):
            await world.pass_(hours=1)
    found = await world.webhooks.get(endpoint.id)
    assert (found.status, found.enabled) == ("paused", False)
    assert "every attempt since" in found.status_reason
    assert "answered 503" in found.status_reason
    assert await world.rows("select 1 from event_log where type = 'webhook.endpoint.paused'")
    receiver.usual, receiver.got = Reply(), []
    await world.webhooks.change(endpoint.id, EndpointPatch(enabled=True), actor="tests")
    await world.send_all()
    arrived = {number(got) for got in receiver.got}
    dead = {row["message_id"] for row in await world.rows("select * from dead_letter")}
    assert {5, 6, 7} <= arrived, "what happened during the pause is sent when it ends"
    assert len(arrived) + len(dead) == 8, "and nothing is missing"
    assert (await world.webhooks.get(endpoint.id)).failures == 0


async def test_both_secrets_sign_while_they_overlap(world, receiver):
    endpoint = await world.subscribe(receiver.url())
    rotated = await world.webhooks.rotate_secret(endpoint.id, SecretRotation(overlap_hours=1), actor="tests")
    assert rotated.secret != endpoint.secret
    await world.emit()
    await world.relay_all()
    await world.send_all()
    assert receiver.got[0].verified_by(endpoint.secret) == receiver.got[0].verified_by(rotated.secret)
    world.clock.at += timedelta(hours=2)
    await world.emit()
    await world.relay_all()
    await world.send_all()
    assert receiver.got[1].verified_by(rotated.secret)
    with pytest.raises(WebhookVerificationError):
        receiver.got[1].verified_by(endpoint.secret)


async def test_replay_of_one_of_a_range_and_since_a_time(world, receiver):
    endpoint = await world.subscribe(receiver.url())
    for n in range(5):
        await world.emit(f"s{n}", n=n)
        await world.relay_all()
        world.clock.at += timedelta(minutes=1)
    await world.send_all()
    ids = {number(got): got.id for got in receiver.got}
    since = world.clock.at - timedelta(minutes=4, seconds=30)

    async def replayed(**request):
        receiver.got.clear()
        answer = await world.webhooks.replay(endpoint.id, ReplayRequest(**request), actor="tests")
        await world.send_all()
        assert answer.replayed == len(receiver.got)
        assert all(ids[number(got)] == got.id for got in receiver.got), "the webhook-id is kept"
        return sorted(number(got) for got in receiver.got)

    assert await replayed(ids=[UUID(ids[3])]) == [3]
    assert await replayed(since=since) == [1, 2, 3, 4]
    assert await replayed(since=since, until=since + timedelta(minutes=2)) == [1, 2]


async def test_a_replay_needs_a_span_or_ids(world, receiver):
    endpoint = await world.subscribe(receiver.url())
    with pytest.raises(Invalid):
        await world.webhooks.replay(endpoint.id, ReplayRequest(), actor="tests")
    with pytest.raises(NotFound):
        await world.webhooks.replay(UUID(int=1), ReplayRequest(since=world.clock.at), actor="tests")


async def test_a_test_event_is_sent_at_once_and_kept(world, receiver):
    endpoint = await world.subscribe(receiver.url())
    answer = await world.webhooks.test(endpoint.id, actor="tests")
    assert (answer.delivered, answer.status) == (True, 200)
    assert receiver.got[0].verified_by(endpoint.secret)["type"] == "webhook.test"
    receiver.usual = Reply(404, body=b"who?")
    answer = await world.webhooks.test(endpoint.id, actor="tests")
    assert (answer.delivered, answer.error, answer.answer) == (False, "answered 404", "who?")
    assert [a.outcome for a in (await world.webhooks.attempts(endpoint.id)).items] == ["dead", "delivered"]


async def test_endpoints_are_listed_changed_and_deleted(world, receiver):
    first = await world.subscribe(receiver.url("/1"))
    second = await world.subscribe(receiver.url("/2"), description="second")
    page = await world.webhooks.page(limit=1)
    assert [e.id for e in page.items] == [second.id]
    rest = await world.webhooks.page(limit=1, cursor=page.next_cursor)
    assert ([e.id for e in rest.items], rest.next_cursor) == ([first.id], None)
    assert page.items[0].secret is None, "a secret is told once"
    changed = await world.webhooks.change(
        second.id, EndpointPatch(url=receiver.url("/new"), events=["*"], enabled=False), actor="tests"
    )
    assert (changed.url, changed.events, changed.status) == (receiver.url("/new"), ["*"], "disabled")
    assert changed.description == "second"
    await world.emit()
    await world.relay_all()
    await world.send_all()
    assert [got.path for got in receiver.got] == ["/1"]
    await world.webhooks.delete(first.id, actor="tests")
    with pytest.raises(NotFound):
        await world.webhooks.get(first.id)
    with pytest.raises(NotFound):
        await world.webhooks.delete(first.id, actor="tests")


@pytest.mark.parametrize(
    ("url", "events", "secret"),
    [
        ("ftp://example.com/x", ["*"], None),
        ("http:///nohost", ["*"], None),
        ("https://user:pass@example.com/", ["*"], None),
        ("https://example.com/a b", ["*"], None),
        ("https://example.com:99999/", ["*"], None),
        ("https://example.com/", [], None),
        ("https://example.com/", ["Not An Event"], None),
        ("https://example.com/", ["*"], "short"),
        ("https://example.com/", ["*"], "whsec_c2hvcnQ="),
    ],
)
async def test_what_could_never_work_is_refused(world, url, events, secret):
    with pytest.raises(Invalid):
        await world.subscribe(url, events, secret=secret)


async def test_a_secret_of_ones_own_is_taken(world, receiver):
    secret = signature.new_secret()
    assert (await world.subscribe(receiver.url(), secret=secret)).secret == secret


async def test_private_addresses_are_refused_when_made_and_when_connected_to(db, receiver):
    from opilio.contracts.webhooks import EndpointCreate
    from opilio.delivery.webhooks.endpoints import Webhooks
    from opilio.net.allowed_addresses import PUBLIC_ONLY

    with pytest.raises(Invalid, match="private or reserved"):
        await Webhooks(db).create(EndpointCreate(url=receiver.url(), events=["*"]), actor="tests")
    async with WebhookClient(PUBLIC_ONLY) as client:
        world = World(db, client)
        endpoint = await world.subscribe(receiver.url().replace("127.0.0.1", "localhost"))
        await world.emit()
        await world.relay_all()
        await world.send_all()
    [attempt] = (await world.webhooks.attempts(endpoint.id)).items
    assert "private or reserved" in attempt.error
    assert receiver.got == []
