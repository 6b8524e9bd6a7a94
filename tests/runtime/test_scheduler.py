"""The scheduler role, one round at a time and whole."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from opilio.clock import FixedClock
from opilio.contracts.policies import PolicyInput
from opilio.crawl.pull import Pull
from opilio.runtime.bootstrap import Opilio, wire
from opilio.runtime.roles.scheduler import WORK, Rounds, scheduler_loops, serve


@pytest.fixture
async def heard(opilio: Opilio):
    """What waiting pulls would hear."""
    words: asyncio.Queue[str] = asyncio.Queue()
    listener = await opilio.database.listen([WORK], lambda channel, _: words.put_nowait(channel))
    yield words
    await listener.close()


async def test_due_policies_become_jobs_and_waiting_pulls_hear_of_it(opilio, heard):
    await opilio.policies.create(PolicyInput(url="https://a.example/"))
    assert await Rounds(opilio).create_due() == {"created": 1}
    async with asyncio.timeout(5):
        assert await heard.get() == WORK
    assert await Rounds(opilio).create_due() == {"created": 0}
    assert heard.empty()


async def test_locks_that_ran_out_are_swept_until_none_is_left(settings, database, heard):
    clock = FixedClock(datetime.now(UTC))
    opilio = wire(settings, database, clock)
    for n in range(3):
        await opilio.policies.create(PolicyInput(url=f"https://a.example/{n}", max_retries=n % 2))
    await opilio.scheduler.create_due()
    assert (await opilio.puller.pull(Pull("b", 3, ("http",)))).count == 3
    assert await Rounds(opilio).expire() == {"retried": 0, "ended": 0}
    clock.at += timedelta(minutes=11)
    assert await Rounds(opilio).expire() == {"retried": 1, "ended": 2}
    async with asyncio.timeout(5):
        assert await heard.get() == WORK


async def test_what_looks_at_whole_tables_is_done_by_one_at_a_time(opilio):
    inside, go_on = asyncio.Event(), asyncio.Event()

    async def work():
        inside.set()
        await go_on.wait()
        return {"done": 1}

    async def never():
        raise AssertionError("two at once")

    first = asyncio.create_task(Rounds(opilio).alone("turn", work)())
    await inside.wait()
    assert await Rounds(opilio).alone("turn", never)() == {}
    go_on.set()
    assert await first == {"done": 1}
    assert await Rounds(opilio).alone("turn", work)() == {"done": 1}


async def test_every_round_works_on_an_empty_database(opilio):
    for loop in scheduler_loops(opilio):
        assert await loop.run_once() is not None, loop.name


async def test_the_role_makes_jobs_until_it_is_stopped(opilio, heard):
    stop = asyncio.Event()
    role = asyncio.create_task(serve(opilio, stop))
    await opilio.policies.create(PolicyInput(url="https://a.example/"))
    async with asyncio.timeout(10):
        assert await heard.get() == WORK
    assert (await opilio.insights.jobs(status="pending")).items
    stop.set()
    async with asyncio.timeout(10):
        await role
