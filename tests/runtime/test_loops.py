"""Background work: it ticks, wakes, survives errors and stops."""

import asyncio
import contextlib
from datetime import timedelta

import pytest

from opilio import metrics
from opilio.loop import Loop, run_loops


@contextlib.asynccontextmanager
async def running(*loops: Loop):
    stop = asyncio.Event()
    task = asyncio.create_task(run_loops(loops, stop))
    try:
        async with asyncio.timeout(10):
            yield
    finally:
        stop.set()
        await task


async def nothing() -> dict[str, int]:
    return {}


async def test_it_works():
    seen = []

    async def work():
        seen.append(1)
        return {"done": 1}

    loop = Loop("ticking", 0.001, work)
    async with running(loop):
        await loop.after(3)
    assert len(seen) >= 3


@pytest.mark.parametrize("name", ["event", "loop", "seconds", "anything"])
async def test_a_count_may_have_any_name(name):
    async def work():
        return {name: 1}

    assert await Loop("counting", 3600, work).run_once() == {name: 1}


async def test_a_wake_does_not_wait_for_the_interval():
    loop = Loop("sleeping", 3600, nothing)
    async with running(loop):
        await loop.after(1)
        loop.wake()
        await loop.after(2)


async def test_a_wake_during_a_round_is_not_lost():
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def work():
        begun.set()
        await go_on.wait()
        return {}

    loop = Loop("busy", 3600, work)
    async with running(loop):
        await begun.wait()
        loop.wake()
        go_on.set()
        await loop.after(2)


async def test_an_error_is_counted_and_the_next_round_comes():
    fail = True

    async def work():
        if fail:
            raise RuntimeError("the database is away")
        return {"done": 1}

    loop = Loop("failing", 3600, work)
    before = metrics.LOOP_ERRORS.labels("failing")._value.get()
    async with running(loop):
        await loop.after(1)
        assert loop.pause == 0.2
        fail = False
        await loop.after(2)
    assert metrics.LOOP_ERRORS.labels("failing")._value.get() == before + 1


async def test_failures_wait_longer_each_time_and_success_forgives():
    answers = iter([RuntimeError(), RuntimeError(), RuntimeError(), None])

    async def work():
        answer = next(answers)
        if answer:
            raise answer
        return {}

    loop = Loop("flaky", 0.5, work)
    pauses = []
    for _ in range(4):
        await loop.run_once()
        pauses.append(loop.pause)
    assert pauses == [0.2, 0.4, 0.8, 0.5]


async def test_stopping_lets_the_round_under_way_finish():
    begun, go_on, finished = asyncio.Event(), asyncio.Event(), []

    async def work():
        begun.set()
        await go_on.wait()
        finished.append(1)
        return {}

    stop = asyncio.Event()
    task = asyncio.create_task(run_loops([Loop("slow", 1, work)], stop))
    await begun.wait()
    stop.set()
    await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    await task
    assert finished == [1]


async def test_a_round_that_never_ends_is_cancelled():
    begun = asyncio.Event()

    async def work():
        begun.set()
        await asyncio.Event().wait()
        return {}

    stop = asyncio.Event()
    task = asyncio.create_task(run_loops([Loop("stuck", 1, work)], stop, patience=0.01))
    await begun.wait()
    stop.set()
    async with asyncio.timeout(5):
        await task


def test_an_interval_must_be_above_0():
    with pytest.raises(ValueError, match="above 0"):
        Loop("wrong", 0, nothing)


async def test_a_loop_that_drains_goes_on_while_it_finds_work():
    left = [3, 2, 1, 0]

    async def work():
        return {"done": left.pop(0) if left else 0}

    loop = Loop("draining", 3600, work, drain=True)
    async with running(loop):
        await loop.after(4)
    assert left == []


async def test_a_loop_sleeps_until_work_is_known_to_be_due():
    async def due():
        return 0.01

    loop = Loop("due", 3600, nothing, next_due=due)
    async with running(loop):
        await loop.after(3)


async def test_a_notification_wakes_a_loop(database):
    loop = Loop("notified", 3600, nothing, wake_on=["opilio_test"], notifications=database)
    async with running(loop):
        await loop.after(1)
        await database.notify("opilio_test")
        await loop.after(2)


async def test_a_wake_does_not_shorten_the_pause_after_a_failure(monkeypatch):
    for pause in ("_FIRST_PAUSE", "_LONGEST_PAUSE"):
        monkeypatch.setattr(f"opilio.loop.{pause}", timedelta(hours=1))

    async def work():
        raise RuntimeError("the broker is away")

    loop = Loop("failing_often", 3600, work)
    async with running(loop):
        for _ in range(50):
            loop.wake()
            await asyncio.sleep(0.002)
    assert loop.rounds == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"pace": -1}, "pace"), ({"wake_on": ["x"]}, "both wake_on and notifications")],
)
def test_a_loop_is_validated_when_it_is_made(wrong, message):
    with pytest.raises(ValueError, match=message):
        Loop("wrong", 1, nothing, **wrong)


async def test_all_subscribers_share_one_connection_that_comes_back(database):
    heard: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    first = await database.listen(["opilio_a"], lambda *word: heard.put_nowait(word))
    second = await database.listen(["opilio_a", "opilio_b"], lambda *word: heard.put_nowait(word))
    listening = "select pid from pg_stat_activity where application_name = 'opilio-listen' and datname = current_database()"
    async with database.session() as session, asyncio.timeout(10):
        [found] = await session.connection.fetch(listening)
        await database.notify("opilio_b", "x")
        assert await heard.get() == ("opilio_b", "x")
        await database.notify("opilio_a", "y")
        assert [await heard.get(), await heard.get()] == [("opilio_a", "y")] * 2
        await session.connection.fetch("select pg_terminate_backend($1)", found["pid"])
        told = sorted([await heard.get() for _ in range(3)])
        assert told == [("opilio_a", ""), ("opilio_a", ""), ("opilio_b", "")]
        await database.notify("opilio_b", "again")
        assert await heard.get() == ("opilio_b", "again")
        await first.close()
        await second.close()
        assert await session.connection.fetch(listening) == []
