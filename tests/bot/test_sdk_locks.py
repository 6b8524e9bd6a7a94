"""Locks of a running bot: kept while it works, given up when they are lost."""

import asyncio

from opilio.bot import Job, Result


async def test_a_long_crawl_keeps_its_lock(plane, make_bot):
    job_id = plane.add("https://shop.example/1", timeout_seconds=0.15)
    bot = make_bot()

    @bot.handler()
    async def crawl(job: Job) -> Result:
        await plane.until(lambda plane: plane.job(job_id).heartbeats >= 5)
        return Result(price=1, currency="EUR")

    await bot.serve(until_idle=True)
    assert plane.job(job_id).status == "done"
    assert plane.job(job_id).retry_count == 0


async def test_a_crawl_whose_lock_is_lost_is_stopped(plane, make_bot, reports):
    job_id = plane.add("https://shop.example/1", timeout_seconds=0.3, max_retries=0)
    bot = make_bot()
    stopped = False

    @bot.handler()
    async def crawl(job: Job) -> Result:
        nonlocal stopped
        plane.skip(60)
        try:
            await asyncio.Event().wait()
        finally:
            stopped = True

    await bot.serve(until_idle=True)
    assert stopped
    assert plane.job(job_id).outcome is None
    assert [report.status for report in reports] == ["lost"]


async def test_a_late_result_is_refused_and_kept(plane, make_bot, reports):
    job_id = plane.add("https://shop.example/1", max_retries=0)
    bot = make_bot()

    @bot.handler()
    async def crawl(job: Job) -> Result:
        plane.skip(601)
        return Result(price=1, currency="EUR")

    await bot.serve(until_idle=True)
    assert [(report.status, report.reason) for report in reports] == [("refused", "lock_expired")]
    assert len(plane.job(job_id).late) == 1


async def test_a_job_whose_lock_is_lost_before_it_started_is_not_begun(plane, make_bot, reports):
    plane.add("https://shop.example/first", priority=90)
    lost = plane.add("https://shop.example/second", timeout_seconds=0.3, max_retries=0)
    bot = make_bot(concurrency=1, prefetch=1)
    begun = []

    @bot.handler()
    async def crawl(job: Job) -> Result:
        begun.append(job.url)
        plane.skip(60)
        await plane.until(lambda plane: plane.requests.get("heartbeat", 0) >= 1)
        return Result(price=1, currency="EUR")

    await bot.serve(until_idle=True)
    assert begun == ["https://shop.example/first"]
    assert plane.job(lost).releases == 0
    assert sorted(report.status for report in reports) == ["done", "lost"]
