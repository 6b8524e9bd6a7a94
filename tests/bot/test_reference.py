"""The reference bot: fetches what it may, as far as it may, and says why not."""

import asyncio
import gzip
import socket
import tracemalloc
import zlib
from decimal import Decimal

import brotli
import httpcore2
import pytest
from backports import zstd

from opilio.bot import CrawlError
from opilio.bot.reference import Options, ReferenceCrawler
from opilio.net import guarded_connect
from opilio.net.allowed_addresses import parse_allow
from opilio.net.loopback_server import HangUp, Reply
from tests.bot.testkit import HTML, PRODUCT, Site, code_of, job


@pytest.fixture
async def site():
    async with Site().serving() as site:
        yield site


@pytest.fixture
async def crawler():
    async with ReferenceCrawler(Options(allow=parse_allow("127.0.0.1/32"), timeout_seconds=5)) as crawler:
        yield crawler


async def test_it_works(site, crawler):
    result = await crawler.crawl(job(site.html("/p/1")))
    assert (result.price, result.currency, result.title, result.in_stock) == (
        Decimal("49.90"),
        "EUR",
        "Lamp",
        True,
    )
    assert len(result.html_hash) == 64
    assert result.raw_html is None


async def test_rules_and_raw_html(site, crawler):
    url = site.html("/p/1", "<h1>Đèn</h1><b>1.234.000 ₫</b>")
    result = await crawler.crawl(job(url, {"price": "b"}, keep_html=True))
    assert (result.price, result.currency) == (1234000, "VND")
    assert "Đèn" in result.raw_html


PACKERS = [
    ("gzip", gzip.compress),
    ("deflate", zlib.compress),
    ("br", lambda body: brotli.compress(body, quality=5)),
    ("zstd", zstd.compress),
]


@pytest.mark.parametrize(("encoding", "pack"), PACKERS)
async def test_compressed_pages(site, crawler, encoding, pack):
    site.pages["/p"] = Reply(200, pack(PRODUCT.encode()), {**HTML, "content-encoding": encoding})
    assert (await crawler.crawl(job(site.address + "/p"))).title == "Lamp"


async def test_redirects_are_followed_with_cookies_and_rules_of_the_new_place(site, crawler):
    site.pages["/old"] = Reply(301, headers={"location": "/mid", "set-cookie": "seen=1"})
    site.pages["/mid"] = Reply(302, headers={"location": "/new"})
    site.html("/new")
    assert (await crawler.crawl(job(site.address + "/old"))).title == "Lamp"
    assert site.asked[-1].headers["cookie"] == "seen=1"
    await crawler.crawl(job(site.address + "/new"))
    assert "cookie" not in site.asked[-1].headers


async def test_a_redirect_loop_ends(site, crawler):
    site.pages["/a"] = Reply(302, headers={"location": "/a"})
    assert await code_of(crawler, job(site.address + "/a")) == "INVALID_RESPONSE"
    assert len(site.paths()) == 11


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.2/",
        "http://[::ffff:127.0.0.2]/",
        "http://169.254.169.254/latest/",
        "file:///etc/passwd",
        "//u:p@x/",
    ],
)
async def test_a_redirect_to_where_it_may_not_go(site, crawler, target):
    site.pages["/a"] = Reply(302, headers={"location": target})
    assert await code_of(crawler, job(site.address + "/a")) == "INVALID_URL"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://localhost/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0/",
        "http://[::1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://10.1.2.3/",
        "http://192.168.1.1/",
        "http://100.64.0.1/",
        "ftp://shop.example/",
        "http://user:secret@127.0.0.1/",
        "http:///nothing",
    ],
)
async def test_private_and_odd_addresses_are_refused(url):
    async with ReferenceCrawler() as crawler:
        assert await code_of(crawler, job(url)) == "INVALID_URL"


async def test_a_name_that_changes_its_address_gains_nothing(site, monkeypatch):
    """The first answer is public, later ones are private: the one that is connected to is the one checked."""
    answers = iter(["93.184.216.34", "127.0.0.1", "127.0.0.1"])
    port, connected = int(site.address.rpartition(":")[2]), []

    async def rebinding(host, port):
        return [next(answers)]

    async def connect(address, port, **_):
        connected.append(address)
        raise httpcore2.ConnectError("not in a test")

    monkeypatch.setattr(guarded_connect, "resolve", rebinding)
    monkeypatch.setattr(guarded_connect, "connect", connect)
    async with ReferenceCrawler() as crawler:
        assert await code_of(crawler, job(f"http://rebind.example:{port}/")) == "NETWORK_ERROR"
        assert connected == ["93.184.216.34"]
    async with ReferenceCrawler() as crawler:
        assert await code_of(crawler, job(f"http://rebind.example:{port}/")) == "INVALID_URL"
    assert connected == ["93.184.216.34"]
    assert site.asked == []


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply(404), "CONTENT_NOT_FOUND"),
        (Reply(410), "CONTENT_REMOVED"),
        (Reply(403), "ACCESS_DENIED"),
        (Reply(500), "NETWORK_ERROR"),
        (Reply(304), "INVALID_RESPONSE"),
        (Reply(200, b"%PDF", {"content-type": "application/pdf"}), "MEDIA_FORMAT_ERROR"),
        (Reply(200, b"not gzip", {**HTML, "content-encoding": "gzip"}), "INVALID_RESPONSE"),
        (Reply(200, b"<h1>nothing for sale</h1>", HTML), "PARSE_ERROR"),
    ],
)
async def test_answers_of_hosts(site, crawler, reply, code):
    site.pages["/p"] = reply
    assert await code_of(crawler, job(site.address + "/p")) == code


async def test_a_rate_limit_says_when_to_retry(site, crawler):
    site.pages["/p"] = Reply(429, headers={"retry-after": "17"})
    with pytest.raises(CrawlError) as raised:
        await crawler.crawl(job(site.address + "/p"))
    assert (raised.value.code, raised.value.retry_after) == ("RATE_LIMITED", 17)


async def test_nobody_listens(crawler):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/"
        assert await code_of(crawler, job(url)) == "CONNECTION_REFUSED"


async def test_a_name_that_does_not_exist(crawler):
    assert await code_of(crawler, job("http://no-such-host.invalid/")) == "DNS_ERROR"


async def test_a_connection_cut_in_the_middle(site, crawler):
    async def hang_up(request):
        raise HangUp

    site.pages["/p"] = hang_up
    assert await code_of(crawler, job(site.address + "/p")) == "NETWORK_ERROR"


async def test_size_is_limited(site, crawler):
    site.html("/p", "x" * 5000)
    assert await code_of(crawler, job(site.address + "/p", max_bytes=1000)) == "MEDIA_TOO_LARGE"


@pytest.mark.parametrize(("encoding", "pack"), PACKERS)
async def test_a_compressed_bomb_is_stopped_before_it_is_unpacked(site, crawler, encoding, pack):
    bomb = pack(bytes(200 * 1024 * 1024))
    site.pages["/bomb"] = Reply(200, bomb, {**HTML, "content-encoding": encoding})
    tracemalloc.start()
    try:
        assert await code_of(crawler, job(site.address + "/bomb")) == "MEDIA_TOO_LARGE"
        assert tracemalloc.get_traced_memory()[1] < 50 * 1024 * 1024
    finally:
        tracemalloc.stop()


async def test_time_is_limited(site, crawler):
    async def slow(request):
        await asyncio.sleep(30)

    site.pages["/p"] = slow
    assert await code_of(crawler, job(site.address + "/p", timeout_hint=0.1)) == "TIMEOUT"


async def test_a_policy_may_give_a_page_more_time_than_the_bot_would(site):
    async def slow(request):
        await asyncio.sleep(0.3)
        return Reply(200, PRODUCT.encode(), HTML)

    site.pages["/p"] = slow
    async with ReferenceCrawler(Options(allow=parse_allow("127.0.0.1/32"), timeout_seconds=0.1)) as impatient:
        assert await code_of(impatient, job(site.address + "/p")) == "TIMEOUT"
        assert (await impatient.crawl(job(site.address + "/p", timeout_hint=5))).title == "Lamp"


async def test_headers_of_the_policy_are_sent_and_secrets_stay_at_home(site, crawler):
    async with Site().serving() as other:
        other.html("/p")
        site.pages["/p"] = Reply(302, headers={"location": other.address + "/p"})
        headers = {"Accept-Language": "vi", "Authorization": "Bearer x"}
        await crawler.crawl(job(site.address + "/p", headers=headers))
        assert site.asked[-1].headers["authorization"] == "Bearer x"
        assert other.asked[-1].headers["accept-language"] == "vi"
        assert "authorization" not in other.asked[-1].headers


@pytest.mark.parametrize(
    "config",
    [
        {"headers": []},
        {"headers": {"x": 1}},
        {"headers": {"host": "x"}},
        {"headers": {"x": "a\r\nb: c"}},
        {"headers": {"a b": "c"}},
        {"timeout_hint": "soon"},
        {"timeout_hint": -1},
        {"max_bytes": True},
        {"js_required": "yes"},
    ],
)
async def test_a_wrong_crawl_config_is_named(crawler, config):
    with pytest.raises(CrawlError, match="crawl_config") as raised:
        await crawler.crawl(job("http://127.0.0.1/", **config))
    assert raised.value.code == "PARSE_ERROR"


async def test_keys_for_other_bots_are_left_alone(site, crawler):
    assert (await crawler.crawl(job(site.html("/p"), wonderful=True))).title == "Lamp"


async def test_a_page_that_needs_javascript_is_left_to_others(crawler):
    assert await code_of(crawler, job("http://127.0.0.1/", js_required=True)) == "UNKNOWN_ERROR"


# -- robots.txt ----------------------------------------------------------------------------------


async def test_robots_are_obeyed_and_asked_once(site, crawler):
    site.pages["/robots.txt"] = Reply(200, b"User-agent: *\nDisallow: /private\n")
    site.html("/private/1"), site.html("/p")
    assert await code_of(crawler, job(site.address + "/private/1")) == "CONTENT_UNAVAILABLE"
    await asyncio.gather(*(crawler.crawl(job(site.address + "/p")) for _ in range(5)))
    assert site.paths() == ["/p"] * 5
    assert len(site.asked) == 6


async def test_robots_that_name_this_bot(site, crawler):
    site.pages["/robots.txt"] = Reply(200, b"User-agent: OpilioBot\nDisallow: /\n\nUser-agent: *\nAllow: /\n")
    assert await code_of(crawler, job(site.html("/p"))) == "CONTENT_UNAVAILABLE"


async def test_robots_hold_for_redirects_too(site, crawler):
    site.pages["/robots.txt"] = Reply(200, b"User-agent: *\nDisallow: /private\n")
    site.pages["/p"] = Reply(302, headers={"location": "/private/1"})
    assert await code_of(crawler, job(site.address + "/p")) == "CONTENT_UNAVAILABLE"
    assert site.paths() == ["/p"]


@pytest.mark.parametrize(
    ("reply", "allowed"),
    [
        (Reply(404), True),
        (Reply(403), True),
        (Reply(200, b"\xff\xfe not robots at all"), True),
        (Reply(302, headers={"location": "/robots.txt"}), True),
        (Reply(500), False),
        (Reply(429), False),
    ],
)
async def test_robots_that_cannot_be_had(site, crawler, reply, allowed):
    site.pages["/robots.txt"] = reply
    url = site.html("/p")
    if allowed:
        assert (await crawler.crawl(job(url))).title == "Lamp"
    else:
        assert await code_of(crawler, job(url)) == "NETWORK_ERROR"
        assert site.paths() == []


async def test_a_page_is_asked_for_by_its_validators_and_a_304_is_not_modified(site, crawler):
    asked = []

    async def conditional(request):
        asked.append((request.headers.get("if-none-match"), request.headers.get("if-modified-since")))
        if request.headers.get("if-none-match") == '"v1"':
            return Reply(304)
        stamps = {"etag": '"v1"', "last-modified": "Wed, 21 Oct 2015 07:28:00 GMT"}
        return Reply(200, PRODUCT.encode(), {**HTML, **stamps})

    site.pages["/p"] = conditional
    first = await crawler.crawl(job(site.address + "/p"))
    assert (first.validators.etag, first.validators.last_modified) == (
        '"v1"',
        "Wed, 21 Oct 2015 07:28:00 GMT",
    )
    again = job(site.address + "/p")
    again.validators = first.validators
    second = await crawler.crawl(again)
    assert second.not_modified
    assert second.price is None
    assert asked == [(None, None), ('"v1"', "Wed, 21 Oct 2015 07:28:00 GMT")]
