"""The demo shop: every layout can be read, every mood shows, prices move, and only loopback is touched."""

import asyncio
from collections import Counter
from itertools import pairwise

import pytest

from opilio.bot.errors import CrawlError
from opilio.bot.extract import compile_rules, extract
from opilio.bot.reference import Options, reference_bot
from opilio.demo import DEMO_LABELS, demo_policies, serving_shop
from opilio.demo.catalogue import PRODUCTS, product, quote
from opilio.demo.shop import page
from opilio.net.allowed_addresses import parse_allow

NOW = 1_800_000_000.0
POLICIES = {policy["url"].rpartition("/")[2]: policy for policy in demo_policies("http://127.0.0.1:1")}
WELL = [number for number in range(1, PRODUCTS + 1) if product(number).mood in ("well", "slow", "glacial")]


@pytest.mark.parametrize("number", [number for number in WELL if product(number).layout != "javascript"])
def test_each_page_says_what_the_catalogue_knows(number):
    item, now = product(number), quote(product(number), NOW)
    policy = POLICIES[str(number)]
    answer = page(f"/products/{number}", NOW)
    result = extract(answer.body.encode(), policy["url"], rule_set=policy.get("rule_set"))
    assert (result.price, result.currency, result.title, result.in_stock) == (
        now.price,
        item.currency,
        item.title,
        now.in_stock,
    )


def test_without_javascript_the_javascript_page_says_nothing():
    with pytest.raises(CrawlError):
        extract(page("/products/178", NOW).body.encode(), rule_set=POLICIES["178"]["rule_set"])


def test_every_mood_shows():
    minutes = [NOW + 30 * step for step in range(12)]
    seen = {number: {page(f"/products/{number}", at).status for at in minutes} for number in range(181, 201)}
    assert seen[188] == {404}
    assert seen[191] == {410}
    assert seen[192] == {200, 429}
    assert seen[195] == {200, 500}
    assert page("/products/181", NOW).delay_seconds > 0
    assert page("/private/products/199", NOW).status == 200
    assert page("/products/201", NOW).status == page("/nowhere", NOW).status == 404
    busy = next(answer for at in minutes if (answer := page("/products/192", at)).status == 429)
    assert int(busy.headers["retry-after"]) > 0


def test_prices_and_stock_move_and_are_the_same_for_the_same_time():
    for number in range(1, PRODUCTS + 1):
        item = product(number)
        line = [quote(item, NOW + 60 * minute) for minute in range(60)]
        assert line == [quote(item, NOW + 60 * minute) for minute in range(60)]
        assert sum(old.price != new.price for old, new in pairwise(line)) >= 4
        hours = [quote(item, NOW + 3600 * hour) for hour in range(24)]
        assert {now.in_stock for now in hours} == {True, False}
        assert all(now.price > 0 for now in line)


def test_policies_are_ready_for_import():
    policies = list(demo_policies("http://127.0.0.1:1", "http://127.0.0.2:1"))
    assert len({policy["url"] for policy in policies}) == PRODUCTS
    assert all(DEMO_LABELS.items() <= policy["labels"].items() for policy in policies)
    assert all(compile_rules(policy.get("rule_set")) for policy in policies)
    assert all(0 < policy["frequency_hours"] < 1 for policy in policies)
    hosts = Counter(policy["url"].split(":")[1] for policy in policies)
    assert hosts == {"//127.0.0.1": 197, "//127.0.0.2": 3}


async def test_the_reference_bot_crawls_the_shop(plane):
    """All of it but the slow and the JavaScript pages, through the real bot."""
    async with serving_shop(clock=lambda: NOW) as shop, plane.serving() as server:
        for policy in demo_policies(*shop.addresses):
            item = product(int(policy["url"].rpartition("/")[2]))
            if item.mood in ("slow", "glacial") or item.layout == "javascript":
                continue
            plane.add(
                policy["url"],
                rule_set=policy.get("rule_set"),
                crawl_config=policy["crawl_config"],
                max_retries=0,
            )
        options = Options(allow=parse_allow(shop.allow))
        async with reference_bot(server, plane.token("demo"), concurrency=20, options=options) as bot:
            await asyncio.wait_for(bot.serve(until_idle=True), 60)
    codes = Counter(job.outcome.error_code or job.status for job in plane.jobs)
    assert codes["done"] >= 175
    assert codes["CONTENT_NOT_FOUND"] == 3
    assert codes["CONTENT_REMOVED"] == 1
    assert codes["CONTENT_UNAVAILABLE"] == 2
    assert set(codes) <= {
        "done",
        "CONTENT_NOT_FOUND",
        "CONTENT_REMOVED",
        "CONTENT_UNAVAILABLE",
        "RATE_LIMITED",
        "NETWORK_ERROR",
    }
