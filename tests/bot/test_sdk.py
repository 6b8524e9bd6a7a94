"""A bot at work: pull, crawl, submit, and what happens on the bad days."""

import asyncio
import subprocess
import sys
from decimal import Decimal

import msgspec
import pytest

from opilio.bot import Bot, CrawlError, ErrorCode, Job, Result
from opilio.bot.testing import FakeControlPlane


async def fixed(job: Job) -> Result:
    return Result(price="19.90", currency="EUR", title="Lamp", in_stock=True)


async def test_it_works(plane, make_bot, reports):
    job_id = plane.add("https://shop.example/1")
    bot = make_bot()
    bot.handler()(fixed)

    await bot.serve(until_idle=True)

    job = plane.job(job_id)
    assert job.status == "done"
    assert bytes(job.outcome.price) == b"19.90"
    assert (job.outcome.currency, job.outcome.title, job.outcome.in_stock) == ("EUR", "Lamp", True)
    assert job.outcome.crawl_duration >= 0
    assert [(report.status, str(report.price)) for report in reports] == [("done", "19.90")]


async def test_results_are_batched(plane, make_bot):
    for number in range(250):
        plane.add(f"https://shop.example/{number}")
    bot = make_bot(concurrency=100)
    bot.handler()(fixed)

    await bot.serve(until_idle=True)

    assert all(job.status == "done" for job in plane.jobs)
    assert plane.requests["submit/batch"] <= 10


@pytest.mark.parametrize("price", [Decimal("0.1"), 0.1, "0.1"])
async def test_a_price_keeps_its_digits(plane, make_bot, price):
    job_id = plane.add("https://shop.example/1")
    bot = make_bot()

    @bot.handler()
    async def crawl(job: Job) -> Result:
        return Result(price=price, currency="USD")

    await bot.serve(until_idle=True)
    assert bytes(plane.job(job_id).outcome.price) == b"0.1"


async def test_known_keys_of_a_dict_are_fields_of_the_result(plane, make_bot):
    job_id = plane.add("https://shop.example/1")
    bot = make_bot()

    @bot.handler()
    async def crawl(job: Job) -> dict[str, object]:
        return {"price": "19.90", "currency": "USD", "in_stock": True, "reviews": 12, "data": {"sku": "A1"}}

    await bot.serve(until_idle=True)
    outcome = plane.job(job_id).outcome
    assert (bytes(outcome.price), outcome.currency, outcome.in_stock) == (b"19.90", "USD", True)
    assert outcome.data == {"sku": "A1", "reviews": 12}


async def test_a_dict_without_known_keys_is_data(plane, make_bot):
    job_id = plane.add("https://shop.example/1")
    bot = make_bot()

    @bot.handler()
    async def crawl(job: Job) -> dict[str, int]:
        return {"reviews": 12}

    await bot.serve(until_idle=True)
    assert plane.job(job_id).outcome.data == {"reviews": 12}


@pytest.mark.parametrize(
    "returned",
    [
        None,
        Result(),
        Result(price=1),
        Result(price="cheap", currency="EUR"),
        Result(price=1, currency="EURO"),
    ],
)
async def test_a_result_the_server_would_refuse_fails_the_job_once(plane, make_bot, returned):
    job_id = plane.add("https://shop.example/1")
    bot = make_bot()

    @bot.handler()
    async def crawl(job: Job) -> Result:
        return returned

    await bot.serve(until_idle=True)
    assert plane.job(job_id).status == "failed"
    assert plane.job(job_id).outcome.error_code == ErrorCode.PARSE_ERROR


async def test_data_that_is_not_json_fails_its_own_job_alone(plane, make_bot):
    bad, good = plane.add("https://shop.example/bad"), plane.add("https://shop.example/good")
    bot = make_bot()

    @bot.handler()
    async def crawl(job: Job) -> Result:
        return Result(data={"value": object() if job.url.endswith("bad") else 1})

    await bot.serve(until_idle=True)
    assert (plane.job(bad).status, plane.job(good).status) == ("failed", "done")


async def test_a_crawl_error_reaches_the_server_with_its_code(plane, make_bot):
    job_id = plane.add("https://shop.example/1", max_retries=0)
    bot = make_bot()

    @bot.handler()
    async def crawl(job: Job) -> Result:
        raise CrawlError(ErrorCode.RATE_LIMITED, "slow down", retry_after=120)

    await bot.serve(until_idle=True)
    outcome = plane.job(job_id).outcome
    assert (outcome.error_code, outcome.error_msg, outcome.retry_after) == ("RATE_LIMITED", "slow down", 120)


async def test_a_bug_in_the_handler_does_not_stop_the_bot(plane, make_bot):
    bad, good = plane.add("https://shop.example/bad", max_retries=1), plane.add("https://shop.example/good")
    bot = make_bot()

    @bot.handler()
    async def crawl(job: Job) -> Result:
        if job.url.endswith("bad"):
            raise ZeroDivisionError
        return Result(price=1, currency="EUR")

    await bot.serve(until_idle=True)
    assert plane.job(good).status == "done"
    assert plane.job(bad).status == "failed"
    assert plane.job(bad).retry_count == 1
    assert plane.job(bad).outcome.error_code == ErrorCode.INTERNAL_ERROR


async def test_a_handler_that_cancels_itself_fails_like_any_other(plane, make_bot):
    job_id = plane.add("https://shop.example/1", max_retries=0)
    bot = make_bot()

    @bot.handler()
    async def crawl(job: Job) -> Result:
        raise asyncio.CancelledError

    await bot.serve(until_idle=True)
    assert plane.job(job_id).outcome.error_code == ErrorCode.INTERNAL_ERROR


async def test_concurrency_is_bounded(plane, make_bot):
    for number in range(20):
        plane.add(f"https://shop.example/{number}")
    bot = make_bot(concurrency=3, prefetch=5)
    running = most = 0

    @bot.handler()
    async def crawl(job: Job) -> Result:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return Result(price=1, currency="EUR")

    await bot.serve(until_idle=True)
    assert most == 3
    assert all(job.status == "done" for job in plane.jobs)


async def test_handlers_by_queue_and_domain(plane, make_bot):
    bot = make_bot(capabilities=["http", "js"])
    called: dict[str, str] = {}

    def named(name: str):
        async def crawl(job: Job) -> Result:
            called[job.url] = name
            return Result(price=1, currency="EUR")

        return crawl

    bot.handler()(named("any"))
    bot.handler(queue="js")(named("js"))
    bot.handler(domain="a.example")(named("a"))
    bot.handler(domain="b.a.example", queue="http")(named("b.a"))
    for url, queue in [
        ("https://x.example/", "http"),
        ("https://x.example/js", "js"),
        ("https://www.a.example/", "js"),
        ("https://b.a.example/", "http"),
        ("https://nota.example/", "http"),
    ]:
        plane.add(url, queue=queue)

    await bot.serve(until_idle=True)

    assert called == {
        "https://x.example/": "any",
        "https://x.example/js": "js",
        "https://www.a.example/": "a",
        "https://b.a.example/": "b.a",
        "https://nota.example/": "any",
    }


async def test_jobs_without_a_handler_are_left_to_other_bots(plane, make_bot):
    other, mine = plane.add("https://other.example/"), plane.add("https://www.a.example/")
    bot = make_bot()
    bot.handler(domain="a.example")(fixed)
    bot.handler(domain="c.example")(fixed)

    await bot.serve(until_idle=True)
    assert (plane.job(other).status, plane.job(mine).status) == ("pending", "done")
    assert plane.job(other).releases == 0


async def test_a_lost_reply_is_repeated_and_counts_once(plane, make_bot, reports):
    job_id = plane.add("https://shop.example/1")
    plane.lose_reply("submit")
    bot = make_bot()
    bot.handler()(fixed)

    await bot.serve(until_idle=True)
    assert plane.requests["submit/batch"] == 2
    assert plane.job(job_id).status == "done"
    assert [report.status for report in reports] == ["done"]


async def test_a_server_that_is_away_is_waited_for(plane, make_bot):
    job_id = plane.add("https://shop.example/1")
    plane.fail_next("pull", 503, times=2)
    plane.fail_next("submit", 502)
    plane.fail_next("submit", 429, retry_after=0)
    bot = make_bot()
    bot.handler()(fixed)

    await bot.serve(until_idle=True)
    assert plane.job(job_id).status == "done"


async def test_the_same_plane_over_tcp(plane: FakeControlPlane):
    job_id = plane.add("https://shop.example/1")
    async with plane.serving() as address:
        bot = Bot(address, plane.token("tcp"), bot_id="tcp")
        bot.handler()(fixed)
        await bot.serve(until_idle=True)
    assert plane.job(job_id).status == "done"
    assert msgspec.json.decode(plane.job(job_id).outcome.price) == 19.9


LIGHT = """
import sys

class OnlyTheLightInstall:
    heavy = {"typer", "rich", "litestar", "extruct", "parsel", "playwright", "asyncpg", "pydantic", "lxml"}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.heavy:
            raise ImportError(name)

sys.meta_path.insert(0, OnlyTheLightInstall())
import opilio.bot, opilio.bot.testing
"""


def test_the_light_install_is_enough_for_the_sdk():
    subprocess.run([sys.executable, "-c", LIGHT], check=True, timeout=30)
