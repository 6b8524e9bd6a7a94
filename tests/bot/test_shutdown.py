"""The end of a bot: what did not start is given back, what runs may finish."""

import asyncio
import contextlib
import signal
import sys
import textwrap
from pathlib import Path

import pytest

from opilio.bot import Job, Result


@contextlib.asynccontextmanager
async def running(bot):
    task = asyncio.create_task(bot.serve())
    try:
        yield task
        async with asyncio.timeout(30):
            await task
    finally:
        task.cancel()


async def test_an_idle_bot_stops(plane, make_bot):
    bot = make_bot(wait_seconds=0.05)
    bot.handler()(_never)
    async with running(bot):
        await plane.until(lambda plane: plane.requests.get("pull", 0) >= 1)
        bot.stop()


async def test_what_did_not_start_is_released_and_what_runs_finishes(plane, make_bot, reports):
    for number in range(5):
        plane.add(f"https://shop.example/{number}")
    bot = make_bot(concurrency=1, prefetch=4, wait_seconds=0.05)
    started, go_on = asyncio.Event(), asyncio.Event()

    @bot.handler()
    async def crawl(job: Job) -> Result:
        started.set()
        await go_on.wait()
        return Result(price=1, currency="EUR")

    async with running(bot):
        await started.wait()
        bot.stop()
        await plane.until(lambda plane: sum(job.releases for job in plane.jobs) == 4)
        go_on.set()

    assert sorted(job.status for job in plane.jobs) == ["done"] + ["pending"] * 4
    assert all(job.retry_count == 0 for job in plane.jobs)
    assert sorted(report.status for report in reports) == ["done"] + ["released"] * 4


async def test_a_second_stop_gives_back_what_runs(plane, make_bot):
    job_id = plane.add("https://shop.example/1")
    bot = make_bot(wait_seconds=0.05)
    started = asyncio.Event()

    @bot.handler()
    async def crawl(job: Job) -> Result:
        started.set()
        await asyncio.Event().wait()

    async with running(bot):
        await started.wait()
        bot.stop()
        bot.stop()

    assert (plane.job(job_id).status, plane.job(job_id).releases) == ("pending", 1)


async def test_a_crawl_that_outlives_the_grace_is_given_back(plane, make_bot):
    job_id = plane.add("https://shop.example/1")
    bot = make_bot(wait_seconds=0.05, grace_seconds=0.05)
    started = asyncio.Event()

    @bot.handler()
    async def crawl(job: Job) -> Result:
        started.set()
        await asyncio.Event().wait()

    async with running(bot):
        await started.wait()
        bot.stop()
    assert plane.job(job_id).status == "pending"


async def test_jobs_that_a_pull_brings_during_the_stop_are_given_back(plane, make_bot):
    bot = make_bot(wait_seconds=5)
    bot.handler()(_never)
    async with running(bot):
        await plane.until(lambda plane: plane.requests.get("pull", 0) >= 1)
        bot.stop()
        job_id = plane.add("https://shop.example/1")
    assert (plane.job(job_id).status, plane.job(job_id).releases) == ("pending", 1)


async def test_a_bot_that_waits_for_jobs_does_not_wait_for_them_once_it_stops(plane, make_bot):
    bot = make_bot(wait_seconds=30)
    bot.handler()(_never)
    async with asyncio.timeout(15), running(bot):
        await plane.until(lambda plane: plane.requests.get("pull", 0) >= 1)
        bot.stop()


async def test_a_bot_stops_also_while_the_server_is_away(plane, make_bot):
    bot = make_bot(wait_seconds=5)
    bot.handler()(_never)
    plane.away = True
    async with running(bot):
        await asyncio.sleep(0.05)  # no signal can tell: nobody answers
        bot.stop()


PROGRAM = textwrap.dedent(
    """
    import asyncio, sys
    from opilio.bot import Bot, Result

    bot = Bot(sys.argv[1], sys.argv[2], bot_id="child", concurrency=1, prefetch=4, wait_seconds=1)

    @bot.handler()
    async def crawl(job):
        if sys.argv[3] == "slow":
            await asyncio.sleep(3600)
        return Result(price=1, currency="EUR")

    bot.run()
    """
)


async def child(plane, address: str, pace: str):
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, address, plane.token("child"), pace
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_signals_end_the_process_cleanly(plane, number):
    for page in range(3):
        plane.add(f"https://shop.example/{page}")
    async with plane.serving() as address:
        process = await child(plane, address, "slow")
        await plane.until(lambda plane: plane.requests.get("pull", 0) == 2)  # the first answer has arrived
        await _until_signals_are_caught(process.pid, number)
        process.send_signal(number)
        await plane.until(lambda plane: sum(job.releases for job in plane.jobs) == 2)
        process.send_signal(number)
        assert await asyncio.wait_for(process.wait(), 30) == 0
    assert all(job.status == "pending" and job.retry_count == 0 for job in plane.jobs)


async def test_a_killed_bot_loses_nothing(plane):
    ids = [plane.add(f"https://shop.example/{page}") for page in range(3)]
    async with plane.serving() as address:
        victim = await child(plane, address, "slow")
        await plane.until(lambda plane: all(job.status == "locked" for job in plane.jobs))
        victim.kill()
        await victim.wait()
        plane.skip(601)
        heir = await child(plane, address, "fast")
        await plane.settled()
        heir.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(heir.wait(), 30) == 0
    assert [(plane.job(job).status, plane.job(job).retry_count) for job in ids] == [("done", 1)] * 3


async def test_a_server_restarted_in_the_middle(plane, make_bot):
    from opilio.bot import Bot

    first = plane.add("https://shop.example/1")
    async with plane.serving() as address:
        port = int(address.rpartition(":")[2])
        bot = Bot(address, plane.token("b"), bot_id="b", wait_seconds=0.2)
        crawled = asyncio.Event()

        @bot.handler()
        async def crawl(job: Job) -> Result:
            crawled.set()
            return Result(price=1, currency="EUR")

        task = asyncio.create_task(bot.serve())
        await crawled.wait()
        await plane.settled()
    second = plane.add("https://shop.example/2")
    async with plane.serving(port):
        await plane.settled()
        bot.stop()
        await asyncio.wait_for(task, 30)
    assert [plane.job(job).status for job in (first, second)] == ["done", "done"]


async def _until_signals_are_caught(pid: int, number: int) -> None:
    """The child pulls after its handlers are in place, so a look at the kernel's mask suffices as proof."""
    status = Path(f"/proc/{pid}/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("SigCgt"))
        assert int(line.split()[1], 16) & (1 << (number - 1))


async def _never(job: Job) -> Result:
    raise AssertionError("no job was expected")
