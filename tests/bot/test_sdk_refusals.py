"""What the server refuses, and what a bot makes of it."""

import pytest

from opilio import errors
from opilio.bot import Bot, Job, Misconfigured, NotAllowed, Refused, Result
from opilio.net import loopback_server
from opilio.net.loopback_server import Reply


async def fixed(job: Job) -> Result:
    return Result(price="19.90", currency="EUR", title="Lamp", in_stock=True)


async def test_a_result_refused_within_its_batch_is_handed_in_as_a_failure(plane, make_bot, monkeypatch):
    job_id, accept = plane.add("https://shop.example/1"), plane._table.submit

    def picky(bot_id, outcome):
        if outcome.success:
            raise errors.Refused("validation_error", "title: is not nice")
        return accept(bot_id, outcome)

    monkeypatch.setattr(plane._table, "submit", picky)
    bot = make_bot()
    bot.handler()(fixed)
    await bot.serve(until_idle=True)
    assert plane.job(job_id).status == "failed"
    assert "is not nice" in plane.job(job_id).outcome.error_msg


async def test_a_page_too_large_for_the_server_goes_without_its_html(plane, make_bot):
    job_id = plane.add("https://shop.example/1")
    bot = make_bot()

    @bot.handler()
    async def crawl(job: Job) -> Result:
        return Result(price=1, currency="EUR", raw_html="x" * 68_000_000)

    await bot.serve(until_idle=True)
    assert plane.job(job_id).status == "done"
    assert plane.job(job_id).outcome.raw_html is None


async def test_what_the_server_refuses_is_handed_in_as_a_failure(plane, make_bot):
    bad, good = plane.add("https://shop.example/bad"), plane.add("https://shop.example/good")
    bot = make_bot()

    @bot.handler()
    async def crawl(job: Job) -> Result:
        return Result(price=1, currency="EUR", html_hash="h" * (200 if job.url.endswith("bad") else 64))

    await bot.serve(until_idle=True)
    assert (plane.job(bad).status, plane.job(good).status) == ("failed", "done")
    assert "html_hash" in plane.job(bad).outcome.error_msg


async def test_a_wrong_token_ends_the_bot(plane, make_bot):
    bot = make_bot(token="wrong")
    bot.handler()(fixed)
    with pytest.raises(NotAllowed, match="unauthorized"):
        await bot.serve()


async def test_a_token_revoked_during_a_crawl_ends_the_bot(plane, make_bot):
    plane.add("https://shop.example/1")
    token = plane.token("bot-1")
    bot = make_bot(token=token)

    @bot.handler()
    async def crawl(job: Job) -> Result:
        plane.revoke(token)
        return Result(price=1, currency="EUR")

    with pytest.raises(NotAllowed, match="unauthorized"):
        await bot.serve()


async def test_a_token_of_another_bot_is_refused(plane, make_bot):
    bot = make_bot(bot_id="bot-2")
    bot.handler()(fixed)
    with pytest.raises(NotAllowed, match="belongs to the bot bot-1"):
        await bot.serve()


async def test_without_a_bot_id_the_token_decides(plane, make_bot):
    job_id = plane.add("https://shop.example/1")
    bot = make_bot(bot_id=None)
    bot.handler()(fixed)
    await bot.serve(until_idle=True)
    assert plane.job(job_id).status == "done"


async def test_an_address_that_is_no_control_plane_says_so(make_bot):
    async def website(request):
        return Reply(200, b"<html>")

    async with loopback_server.serving(website) as address:
        bot = Bot(address, "token")
        bot.handler()(fixed)
        with pytest.raises(Refused, match="not an answer of the bot API"):
            await bot.serve()


@pytest.mark.parametrize(
    "options",
    [
        {"server": "shop.example"},
        {"token": ""},
        {"capabilities": ["ftp"]},
        {"concurrency": 0},
        {"wait_seconds": 31},
    ],
)
def test_a_wrong_set_up_is_refused_at_once(options):
    with pytest.raises(Misconfigured):
        Bot(**{"server": "http://127.0.0.1:1", "token": "t", **options})


async def test_a_capability_without_a_handler_is_refused(make_bot):
    bot = make_bot(capabilities=["http", "js"])
    bot.handler(queue="http")(fixed)
    with pytest.raises(Misconfigured, match="'js'"):
        await bot.serve()
