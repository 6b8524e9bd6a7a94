"""When hosts were cooling down is kept, one row for each period."""

import asyncio
from datetime import timedelta

from tests.crawl.farm import Farm, FarmMaker


async def test_cooling_periods_are_kept(farm: Farm) -> None:
    """A period that is extended stays one; the next one is another."""
    await farm.policies(4)
    await farm.due()
    began = farm.clock.at
    one, two, three, four = await farm.pull(most=4)
    await farm.fail(one, error_code="RATE_LIMITED", retry_after=60)
    farm.later(seconds=30)
    await farm.fail(two, "bot-1", error_code="RATE_LIMITED", retry_after=60)
    await farm.fail(three, error_code="TIMEOUT")
    farm.later(seconds=90)
    await farm.fail(four, error_code="RATE_LIMITED", retry_after=10)
    last, first = (await farm.opilio.insights.host("shop.example")).cooling_periods
    assert (first.began_at - began, first.until - began) == (timedelta(0), timedelta(seconds=90))
    assert (last.began_at - began, last.until - began) == (timedelta(seconds=120), timedelta(seconds=130))
    assert first.reason == "shop.example answered RATE_LIMITED to bot-1"


async def test_429s_at_once_are_one_cooling_period(farm_with: FarmMaker) -> None:
    farms = [farm_with() for _ in range(6)]
    await farms[0].policies(6)
    await farms[0].due()
    jobs = await farms[0].pull(most=6)
    await asyncio.gather(
        *(
            farm.fail(job, error_code="RATE_LIMITED", retry_after=60 + n)
            for n, (farm, job) in enumerate(zip(farms, jobs, strict=True))
        )
    )
    assert await farms[0].value("select array_agg(until - began_at) from host_cooling") == [
        timedelta(seconds=65)
    ]


async def test_a_host_that_asks_for_no_pause_was_not_cooling(farm: Farm) -> None:
    job = await farm.one()
    await farm.fail(job, error_code="RATE_LIMITED", retry_after=0)
    assert await farm.value("select count(*) from host_cooling") == 0
