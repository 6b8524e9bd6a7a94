"""Everything three times in any order, kill -9, a PostgreSQL that restarts, poison in between: the figures are exact."""

import asyncio
import random
from collections import Counter

import pytest
import zstandard

from tests.analytics.batches import body, event, failed, post
from tests.analytics.place import Place, open_place, put, until
from tests.components.fixtures import rabbitmq, s3  # noqa: F401

PROJECT, JOB = "hard", "hard-brand-0"
BATCHES, SUCCEEDED, FAILED, LOST = 16, 18, 2, 7
UNREADABLE = {
    "missing": (None, "is not in object storage"),
    "zstd": (b"\x28\xb5\x2f\xfd" + b"\xff" * 40, "bad_compression"),
    "text": (b"[1, 2", "not_json"),
    "word": (b'"posts"', "not_an_array"),
    "bomb": (zstandard.compress(b"0" * (200 << 20)), "too_large"),
}
RUBBISH = {b"not json": "not_json", b'{"what": 1}': "unknown_format"}


def batch(number: int) -> bytes:
    posts = [post(f"{number}-{n}", comments=[{"text": f"đẹp {n}"}]) for n in range(SUCCEEDED)]
    items = [*posts, *(failed(f"{number}-x{n}", "TIMEOUT") for n in range(FAILED))]
    return zstandard.compress(body(*items))


def an_event(name: str, number: int, count: int) -> bytes:
    about = {"project_id": PROJECT, "job_id": JOB, "batch_index": number, "content_count": count}
    return event(f"opilio/{name}.json", f"evt-{name}", **about)


async def filled(s3) -> tuple[list[bytes], dict[bytes, str]]:  # noqa: F811
    """Puts objects into storage; answers good messages, and bad ones with the reason they must be given up for."""
    good = []
    for number in range(BATCHES):
        await put(s3, f"b{number}.json", batch(number))
        good.append(an_event(f"b{number}", number, SUCCEEDED + FAILED))
    await put(s3, "old.json", body(post("old", meta={"job_id": JOB})))
    good.append(b'{"data_ref": {"bucket": "opilio", "path": "old.json"}}')
    good.append(body(post("inline", meta={"job_id": JOB}))[1:-1])
    bad = dict(RUBBISH)
    for number, (name, (data, reason)) in enumerate(UNREADABLE.items(), BATCHES):
        if data is not None:
            await put(s3, f"{name}.json", data)
        bad[an_event(name, number, LOST)] = reason
    return good, bad


async def dies_between_commit_and_ack(place: Place, message: bytes) -> None:
    await place.wire.hold_acks()
    await place.wire.publish([message])
    await until(lambda: place.postgres.count("analysed_batch where status = 'done'"))
    await place.kill()
    await until(place.is_gone, 5)
    await until(place.wire.waiting)  # the message is back in its queue although its rows are there
    await place.start()


async def storm(place: Place, messages: list[bytes], chance: random.Random) -> None:
    """Messages come while the process is killed at any point and PostgreSQL goes away and comes back."""
    pieces = [messages[at::5] for at in range(5)]
    for number, piece in enumerate(pieces):
        await place.wire.publish(piece)
        before = await place.done()
        await asyncio.sleep(chance.random() * 0.6)
        if number == 2:
            await place.postgres.stop()
            await asyncio.sleep(0.5)
            await place.postgres.start()
        else:
            await place.kill()
            await place.start()
        await until(lambda before=before: _more(place, before))


async def _more(place: Place, before: int) -> bool:
    place.must_live()
    return await place.done() > before or await place.wire.waiting() == 0


async def settled(place: Place) -> bool:
    state = await place.state(PROJECT)
    told = state.analyze_done + state.analyze_errors
    wanted = BATCHES * SUCCEEDED + len(UNREADABLE) * LOST  # what could not be fetched is not analysed
    return told >= wanted and await place.wire.waiting() == 0


async def assert_exact(place: Place, bad: dict[bytes, str]) -> None:
    ask, count = place.postgres.ask, place.postgres.count
    assert await count("post_analytics where fetch_status = 'success'") == BATCHES * SUCCEEDED + 2
    assert await count("post_analytics where fetch_status = 'error'") == BATCHES * FAILED
    assert await count("post_comments") == BATCHES * SUCCEEDED
    assert await count("crawl_errors") == BATCHES * FAILED
    assert await count("analysed_batch where status = 'done'") == BATCHES + 2
    assert await count("analysed_batch where status = 'failed'") == len(UNREADABLE)
    told = await ask("select job_id as job from told")
    expected = {f"{JOB}-analyze-batch-{n}": 1 for n in range(BATCHES + len(UNREADABLE))}
    assert Counter(row["job"] for row in told) == expected
    state = await place.state(PROJECT)
    assert state.analyze_done == BATCHES * SUCCEEDED
    assert state.analyze_errors == len(UNREADABLE) * LOST
    letters = await ask("select body, reason from dead_letter where source = 'analytics.data.collected'")
    assert {row["body"] for row in letters} == set(bad)
    for row in letters:
        assert bad[row["body"]] in row["reason"]


@pytest.mark.parametrize("kind", ["local", "rabbitmq"])
async def test_the_figures_are_exact_whatever_happens(kind, request, s3, server_dir):  # noqa: F811
    chance = random.Random(20260504)
    rabbit = request.getfixturevalue("rabbitmq") if kind == "rabbitmq" else None
    good, bad = await filled(s3)
    arriving = [*good, *bad] * 3
    chance.shuffle(arriving)
    async with open_place(server_dir, s3, rabbit, OPILIO_ANALYTICS_WORKERS="1") as place:
        await place.create(PROJECT)
        await place.start()
        await dies_between_commit_and_ack(place, good[0])
        try:
            await storm(place, arriving, chance)
            await until(lambda: settled(place), 60)
        except TimeoutError:
            waiting, state = await place.wire.waiting(), await place.state(PROJECT)
            pytest.fail(
                f"{waiting} messages wait, {await place.done()} batches are done, {state}\n{place.log}"
            )
        await place.stop()
        await until(place.is_gone, 5)
        assert await place.wire.waiting() == 0  # nothing was left unacknowledged either
        await assert_exact(place, bad)
