"""The fake control plane of the SDK and the real server answer every request of a bot exactly alike.

Each scenario is played on both; ids are numbered and times are masked, everything else must be equal.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from uuid import UUID

import httpx2
import pytest

from opilio.bot.testing import FakeControlPlane
from opilio.clock import FixedClock
from opilio.runtime.bootstrap import Opilio
from opilio.web.app import create_app, serve_beside
from tests.bot.planes import NOBODY, Fake, Plane, Real, outcome


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
async def real(opilio: Opilio, clock: FixedClock):
    app = create_app(opilio)
    transport = httpx2.ASGITransport(app=app)
    async with (
        serve_beside(app, opilio),
        httpx2.AsyncClient(transport=transport, base_url="http://opilio.test") as http,
    ):
        yield Real(opilio, clock, http)


@pytest.fixture
async def fake(plane: FakeControlPlane):
    async with httpx2.AsyncClient(transport=plane.transport, base_url=plane.server) as http:
        yield Fake(plane, http)


def failure(**fields: Any) -> dict[str, Any]:
    return {"success": False, "price": ..., "currency": ..., **fields}


Scenario = Callable[[Plane], Awaitable[None]]
SCENARIOS: list[Scenario] = []


def scenario(work: Scenario) -> Scenario:
    SCENARIOS.append(work)
    return work


@pytest.mark.parametrize("play", SCENARIOS, ids=lambda play: play.__name__)
async def test_both_answer_alike(play: Scenario, fake: Fake, real: Real) -> None:
    await play(real)
    await play(fake)
    assert real.said
    different = "\n".join(differences(real.said, fake.said, "answer"))
    assert not different, different


def differences(real: Any, fake: Any, path: str) -> Iterator[str]:
    """One line for each value that is not the same."""
    if isinstance(real, dict) and isinstance(fake, dict) and real.keys() == fake.keys():
        for name in real:
            yield from differences(real[name], fake[name], f"{path}.{name}")
    elif isinstance(real, list | tuple) and isinstance(fake, list | tuple) and len(real) == len(fake):
        for number, (theirs, ours) in enumerate(zip(real, fake, strict=True)):
            yield from differences(theirs, ours, f"{path}[{number}]")
    elif real != fake:
        yield f"{path}: the server says {real!r}, the fake {fake!r}"


# ── pull ─────────────────────────────────────────────────────────────────────────────────────────


@scenario
async def a_job_from_pull_to_done(plane: Plane) -> None:
    await plane.add(crawl_config={"headers": {"a": "b"}}, rule_set={"price": "b"}, priority=70)
    [job] = await plane.pull()
    assert UUID(job["lock_token"])
    assert (await plane.submit(job))["status"] == "done"
    await plane.pull()


@scenario
async def pulls_that_find_nothing(plane: Plane) -> None:
    await plane.pull()
    await plane.add(queue="js")
    await plane.pull()
    await plane.pull(domain="other.example")
    await plane.pull(capabilities=["js", "http"], domain="shop.example")


@scenario
async def domains_and_priorities(plane: Plane) -> None:
    for number, host in enumerate(("shop.example", "www.shop.example", "notshop.example")):
        await plane.add(f"https://{host}/", priority=10 * number)
    assert len(await plane.pull(domain="SHOP.example")) == 2
    assert len(await plane.pull(max_jobs=1)) == 1


@scenario
async def jobs_of_others_are_skipped(plane: Plane) -> None:
    await plane.add()
    await plane.pull()
    await plane.pull(bot="bot-2")


@scenario
async def wrong_pulls(plane: Plane) -> None:
    bodies = (
        {},
        [],
        {"bot_id": 1},
        {"bot_id": "bot-1", "max_jobs": 0},
        {"bot_id": "bot-1", "max_jobs": 101},
        {"bot_id": "bot-1", "colour": "red"},
        {"bot_id": "bot-1", "capabilities": []},
        {"bot_id": "bot-1", "capabilities": ["ftp"]},
        {"bot_id": "bot-1", "wait_seconds": 31},
        {"bot_id": "bot-1", "domain": "https://shop.example/"},
        {"bot_id": "bot-1", "domain": ""},
        {"bot_id": "bot 1"},
        {"bot_id": "bot-2"},
    )
    for body in bodies:
        await plane.post("pull/", body)
    for content in (b"", b"{", b'"', b"\xff", b'{"bot_id": "bot-1", "max_jobs": 1e999}', b"[" * 2000):
        await plane.post("pull", content=content)


@scenario
async def who_may_ask(plane: Plane) -> None:
    for header in ("Bearer nobody", "Bearer", "Basic bm9ib2R5", ""):
        await plane.post("pull/", {"bot_id": "bot-1"}, headers={"authorization": header})
        await plane.post("submit/", {"wrong": "body"}, headers={"authorization": header})


@scenario
async def paths_and_methods(plane: Plane) -> None:
    await plane.post("nothing/", {})
    for method in ("GET", "PUT"):
        await plane.post("pull", method=method)


# ── submit ───────────────────────────────────────────────────────────────────────────────────────


@scenario
async def the_same_submit_again(plane: Plane) -> None:
    await plane.add()
    [job] = await plane.pull()
    assert await plane.submit(job) == await plane.submit(job)
    await plane.submit(job, lock_token=...)
    await plane.submit(job, price=2)
    await plane.submit(job, **failure(error_code="TIMEOUT"))


@scenario
async def prices(plane: Plane) -> None:
    good = ("99.90", 99.9, 0, "0.000001", 123456789012345678, "1.500000", -0.0)
    for number, price in enumerate(good):
        await plane.add(f"https://shop.example/{number}")
        [job] = await plane.pull()
        await plane.submit(job, price=price, currency="eur")
    await plane.add("https://shop.example/wrong")
    [job] = await plane.pull()
    for price in ("1,50", "", "€5", "-1", -1, "1e3", 1e300, "0.0000001", True, [], {}, " 1"):
        await plane.submit(job, price=price)


@scenario
async def wrong_submits(plane: Plane) -> None:
    await plane.add()
    [job] = await plane.pull()
    changes: tuple[dict[str, Any], ...] = (
        {"price": None},
        {"price": ..., "currency": ...},
        {"currency": ...},
        {"currency": "EURO"},
        {"currency": "EUR\n"},
        {"colour": "red"},
        {"job_id": "x"},
        {"job_id": ...},
        {"success": "yes"},
        {"title": "a\x00b"},
        {"title": "x" * 2001},
        {"data": {"a": "\x00"}},
        {"data": {"n": 10**120}},
        {"data": []},
        {"crawl_duration": -1},
        {"crawl_duration": 90_000},
        {"retry_after": -1},
        {"error_code": ""},
        {"html_hash": "x" * 129},
        {"not_modified": True},
        {"not_modified": True, "success": False, "price": ..., "currency": ...},
        {"validators": {"etag": ""}},
        {"validators": {"colour": "red"}},
        {"changed_at": "yesterday"},
        {"changed_at": "2026-01-01T00:00:00"},
        {"job_id": NOBODY},
        {"lock_token": NOBODY},
        {"lock_token": "x"},
    )
    for change in changes:
        await plane.submit(job, **change)
    await plane.submit(job)


@scenario
async def a_foreign_bot(plane: Plane) -> None:
    await plane.add()
    [job] = await plane.pull()
    await plane.submit(job, bot="bot-2")
    await plane.submit(job, bot="bot-2", lock_token=...)
    await plane.post("submit/", {"bot_id": "bot-2", **outcome(job)})
    await plane.submit(job)
    await plane.submit(job, bot="bot-2")


@scenario
async def retries_until_none_is_left(plane: Plane) -> None:
    await plane.add(max_retries=1)
    [job] = await plane.pull()
    failed = failure(error_code="TIMEOUT", error_msg="slow")
    await plane.submit(job, **failed)
    await plane.submit(job, **failed)
    await plane.submit(job)
    await plane.skip(5)
    [again] = await plane.pull()
    await plane.submit(job, **failed)
    assert (await plane.submit(again, **failed))["status"] == "failed"
    await plane.submit(again, **failed)
    await plane.submit(again)


@scenario
async def codes_that_end_a_job(plane: Plane) -> None:
    for number, code in enumerate(("CONTENT_REMOVED", "PARSE_ERROR", "SOMETHING_ELSE", None)):
        await plane.add(f"https://shop.example/{number}", max_retries=number % 2)
        [job] = await plane.pull()
        await plane.submit(job, **failure(error_code=code))


@scenario
async def not_modified(plane: Plane) -> None:
    await plane.add()
    [job] = await plane.pull()
    await plane.submit(job, price=..., currency=..., not_modified=True)


@scenario
async def after_the_ttl(plane: Plane) -> None:
    await plane.add(timeout_seconds=60)
    [job] = await plane.pull()
    await plane.skip(61)
    await plane.submit(job)
    await plane.hold("heartbeat/", job)
    await plane.hold("release/", job)
    await plane.skip(5)
    [again] = await plane.pull(bot="bot-2")
    assert again["retry_count"] == 1
    await plane.submit(job)
    await plane.submit(again, bot="bot-2")
    await plane.submit(job)


@scenario
async def an_expired_job_without_retries(plane: Plane) -> None:
    await plane.add(timeout_seconds=60, max_retries=0)
    [job] = await plane.pull()
    await plane.skip(61)
    await plane.submit(job)
    await plane.submit(job, bot="bot-2")
    await plane.hold("release/", job)


# ── batches, heartbeat, release ──────────────────────────────────────────────────────────────────


@scenario
async def batches(plane: Plane) -> None:
    for number in range(3):
        await plane.add(f"https://shop.example/{number}")
    jobs = await plane.pull()
    results: list[Any] = [
        outcome(jobs[0]),
        outcome(jobs[1], price="x"),
        outcome(jobs[1], job_id=NOBODY),
        {"job_id": jobs[1]["job_id"], "wrong": 1},
        7,
        outcome(jobs[0]),
        outcome(jobs[2], **failure(error_code="TIMEOUT")),
    ]
    await plane.post("submit/batch/", {"bot_id": "bot-1", "results": results})
    for wrong in ([], {}, "x", [outcome(jobs[0])] * 101):
        await plane.post("submit/batch/", {"bot_id": "bot-1", "results": wrong})
    await plane.post("submit/batch/", {"bot_id": "bot-2", "results": results})


@scenario
async def heartbeats(plane: Plane) -> None:
    await plane.add(timeout_seconds=60)
    [job] = await plane.pull()
    for _ in range(12):
        await plane.skip(50)
        await plane.hold("heartbeat/", job)
    await plane.hold("heartbeat/", job | {"job_id": NOBODY}, job | {"lock_token": NOBODY})
    await plane.hold("heartbeat/")


@scenario
async def releases(plane: Plane) -> None:
    await plane.add()
    [job] = await plane.pull()
    await plane.hold("release/", job, job)
    await plane.hold("release/", job)
    await plane.submit(job)
    await plane.hold("heartbeat/", job)
    [again] = await plane.pull()
    assert again["retry_count"] == 0
    await plane.hold("release/", job)
    await plane.submit(again)
    await plane.hold("release/", again)


async def test_locks_live_as_long_on_both(fake: Fake, real: Real) -> None:
    from datetime import UTC, datetime

    for plane, now in ((fake, datetime.now(UTC)), (real, real.clock.at)):
        await plane.add(timeout_seconds=90)
        [job] = await plane.pull()
        left = datetime.fromisoformat(job["locked_until"]) - now
        assert 85 <= left.total_seconds() <= 95
