"""The capability `js`: pages that draw themselves, and no way around the guard."""

import asyncio

import pytest

from opilio.bot import Misconfigured
from opilio.bot.reference import Options, ReferenceCrawler
from opilio.bot.reference.find_chromium import find_browser, required_browser
from opilio.demo import demo_policies, serving_shop
from opilio.demo.catalogue import product
from opilio.net.allowed_addresses import parse_allow
from opilio.net.loopback_server import Reply
from tests.bot.testkit import HTML, Site, code_of, job

DRAWN = """<html><body><h1>Wait</h1><script>
setTimeout(() => { document.body.innerHTML =
  '<h1>Drawn lamp</h1><b class="price">1.234.000 \\u20ab</b><i class="stock">C\\u00f2n h\\u00e0ng</i>' }, 100)
</script></body></html>"""
RULES = {"price": ".price", "title": "h1", "in_stock": ".stock"}


@pytest.fixture(scope="module")
async def crawler():
    options = Options(allow=parse_allow("127.0.0.1/32"), browser=required_browser(), timeout_seconds=20)
    async with ReferenceCrawler(options) as crawler:
        yield crawler


@pytest.fixture
async def site():
    async with Site().serving() as site:
        yield site


async def test_it_works(site, crawler):
    result = await crawler.crawl(job(site.html("/p", DRAWN), RULES, "js", wait_for=".price"))
    assert (result.price, result.currency, result.title, result.in_stock) == (
        1234000,
        "VND",
        "Drawn lamp",
        True,
    )


async def test_the_demo_page_that_needs_javascript(crawler):
    async with serving_shop() as shop:
        [policy] = [policy for policy in demo_policies(shop.address) if policy["url"].endswith("/178")]
        result = await crawler.crawl(job(policy["url"], policy["rule_set"], "js", **policy["crawl_config"]))
    assert (result.title, result.currency) == (product(178).title, "VND")
    assert result.price > 0


async def test_js_required_on_another_queue(site, crawler):
    result = await crawler.crawl(job(site.html("/p", DRAWN), RULES, "http", js_required=True))
    assert result.title == "Drawn lamp"


async def test_pages_at_once(site, crawler):
    urls = [site.html(f"/p{number}", DRAWN) for number in range(6)]
    results = await asyncio.gather(*(crawler.crawl(job(url, RULES, "js", wait_for=".price")) for url in urls))
    assert [result.title for result in results] == ["Drawn lamp"] * 6


async def test_a_browser_that_died_is_started_again(site, crawler):
    url = site.html("/p", DRAWN)
    await crawler.crawl(job(url, RULES, "js", wait_for=".price"))
    await crawler._browser._browser.close()
    assert (await crawler.crawl(job(url, RULES, "js", wait_for=".price"))).title == "Drawn lamp"


async def test_pictures_are_not_loaded(site, crawler):
    await crawler.crawl(job(site.html("/p", DRAWN + '<img src="/big.jpg">'), RULES, "js", wait_for=".price"))
    assert "/big.jpg" not in site.paths()


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply(404), "CONTENT_NOT_FOUND"),
        (Reply(429, headers={"retry-after": "9"}), "RATE_LIMITED"),
        (Reply(302, headers={"location": "http://127.0.0.2/"}), "INVALID_URL"),
        (Reply(302, headers={"location": "/p"}), "INVALID_RESPONSE"),
        (Reply(200, b"<h1>nothing</h1>", HTML), "PARSE_ERROR"),
    ],
)
async def test_answers_of_hosts(site, crawler, reply, code):
    site.pages["/p"] = reply
    assert await code_of(crawler, job(site.address + "/p", queue="js")) == code


async def test_a_host_that_refuses_is_reported_as_such(crawler):
    assert await code_of(crawler, job("http://127.0.0.1:9/", queue="js")) == "CONNECTION_REFUSED"


async def test_a_private_host_is_refused(crawler):
    assert await code_of(crawler, job("http://127.0.0.2/", queue="js")) == "INVALID_URL"


async def test_scripts_cannot_reach_what_the_bot_may_not(site, crawler):
    async with Site().serving("127.0.0.2") as inside:
        inside.pages["/secret"] = Reply(200, b"secret", {"access-control-allow-origin": "*"})
        spy = f"""<h1>spy</h1><p id="out"></p><script>
        fetch('{inside.address}/secret').then(r => r.text()).then(t => out.textContent = t || 'empty')
          .catch(e => out.textContent = 'blocked')</script>"""
        rules = {"data": {"seen": "#out"}}
        result = await crawler.crawl(job(site.html("/p", spy), rules, "js"))
        assert result.data["seen"] in ("blocked", "empty")
        assert inside.asked == []


async def test_robots_hold_for_navigations_by_script(site, crawler):
    site.pages["/robots.txt"] = Reply(200, b"User-agent: *\nDisallow: /private\n")
    site.html("/private")
    page = site.html("/p", "<h1>here</h1><script>location.href = '/private'</script>")
    await code_of(crawler, job(page, RULES, "js"))
    assert "/private" not in site.paths()


async def test_time_is_limited(site, crawler):
    async def slow(request):
        await asyncio.sleep(30)

    site.pages["/p"] = slow
    assert await code_of(crawler, job(site.address + "/p", queue="js", timeout_hint=0.5)) == "TIMEOUT"


def test_a_browser_that_is_not_there_says_what_to_do():
    with pytest.raises(Misconfigured, match="--browser"):
        required_browser("/no/such/browser")


def test_without_playwright_there_is_no_browser(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert find_browser() is None
    with pytest.raises(Misconfigured, match="Playwright is missing"):
        required_browser()
