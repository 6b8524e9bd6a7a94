"""Columns that sort: on the server, in the address, told to screen readers; and how many rows there are."""

import asyncio
from typing import Any

from playwright.async_api import Page, expect

from opilio.runtime.bootstrap import Opilio
from tests.dashboard.conftest import Bot, add_policy
from tests.dashboard.test_prices import crawl


async def column(page: Page, number: int) -> list[str]:
    cells = page.locator(f"#list tbody tr td:nth-child({number}), .card tbody tr td:nth-child({number})")
    return [text.strip().split("\n")[0] for text in await cells.all_inner_texts()]


async def press(page: Page, heading: str) -> None:
    before = page.url
    await page.locator("thead").get_by_role("link", name=heading).click()
    await page.wait_for_url(lambda url: url != before)


async def three_products(opilio: Opilio, bot: Bot) -> list[Any]:
    ids = []
    for n, price in enumerate((20, 5, 90)):
        made = await add_policy(opilio, f"https://{'abc'[n]}.example/p", priority=30 + 10 * n)
        await crawl(
            opilio, bot, made, price=price, currency="EUR", title=f"Product {n}", crawl_duration=price / 10
        )
        await crawl(opilio, bot, made, price=price + n + 1, currency="EUR", title=f"Product {n}")
        ids.append(made)
    return ids


async def test_every_list_sorts_and_counts(admin: Page, opilio: Opilio, bot: Bot) -> None:
    await three_products(opilio, bot)
    names = ["Product 0", "Product 1", "Product 2"]

    await admin.goto("/policies")
    await expect(admin.locator("#total")).to_have_text("3 policies")
    await press(admin, "Price")
    await expect(admin.locator("th[aria-sort=descending]")).to_contain_text("Price")
    assert await column(admin, 2) == ["Product 2", "Product 0", "Product 1"]
    await press(admin, "Price")
    await expect(admin.locator("th[aria-sort=ascending]")).to_contain_text("Price")
    assert admin.url.endswith("sort=-price")
    assert await column(admin, 2) == ["Product 1", "Product 0", "Product 2"]
    await press(admin, "Product")
    assert await column(admin, 2) == names
    await press(admin, "Priority")
    assert await column(admin, 2) == names[::-1]
    await admin.reload()  # the order is in the address
    assert await column(admin, 2) == names[::-1]

    await admin.goto("/prices")
    await press(admin, "Product")
    assert await column(admin, 2) == names
    await press(admin, "Change")
    assert await column(admin, 2) == ["Product 1", "Product 0", "Product 2"]
    await press(admin, "Change")
    assert await column(admin, 2) == ["Product 2", "Product 0", "Product 1"]

    await admin.goto("/jobs")
    await expect(admin.locator("#total")).to_have_text("6 jobs")
    await press(admin, "Priority")
    urls = await column(admin, 3)
    assert urls == sorted(urls, reverse=True)
    await press(admin, "Priority")
    assert await column(admin, 3) == sorted(urls)

    await admin.goto("/results?currency=EUR")
    await expect(admin.locator("#total")).to_have_text("6 results")
    await press(admin, "Price")
    assert (await column(admin, 2))[0] == "€93.00"
    assert "currency=EUR" in admin.url
    await press(admin, "Crawled")
    await press(admin, "Crawled")
    assert (await column(admin, 2))[0] == "€20.00"  # the oldest

    await admin.goto("/hosts")
    await expect(admin.locator("#total")).to_have_text("3 hosts")
    await press(admin, "Host")
    assert await column(admin, 1) == ["a.example", "b.example", "c.example"]
    await press(admin, "Host")
    assert await column(admin, 1) == ["c.example", "b.example", "a.example"]


async def test_bots_sort_and_are_summed_up(admin: Page, opilio: Opilio, bot: Bot) -> None:
    await three_products(opilio, bot)
    await opilio.credentials.new_bot_token("a-lazy-bot")
    async with asyncio.timeout(20):  # activity is written a moment after the answers
        while sum(bot.done_24h for bot in (await opilio.insights.bots(limit=10)).items) < 6:
            await asyncio.sleep(0.1)
    await admin.goto("/bots")
    assert await column(admin, 1) == ["a-lazy-bot", "bot-1"]
    await press(admin, "Completed")
    assert await column(admin, 1) == ["bot-1", "a-lazy-bot"]
    await expect(admin.locator("tfoot")).to_contain_text("6")


async def test_a_sorted_list_has_pages_without_gaps_and_says_where_it_ends(
    admin: Page, opilio: Opilio
) -> None:
    await add_policy(opilio, "https://many.example/p")
    async with opilio.database.session() as session:
        await session.connection.execute(MANY)
    seen: list[str] = []
    await admin.goto("/jobs?sort=retries")
    while True:
        seen += await admin.locator("#list tbody tr").evaluate_all(
            "rows => rows.map(row => row.dataset.href)"
        )
        following = admin.locator("#list a[rel=next]")
        if not await following.count():
            break
        await following.click()
        await admin.wait_for_load_state("domcontentloaded")
    assert len(seen) == len(set(seen)) == 120
    await expect(admin.locator("#total")).to_have_text("120 jobs")


MANY = """
insert into job_archive (job_id, policy_id, host_id, queue, status, priority, base_priority, retry_count, max_retries, run_at,
  created_at, created_by, finished_at, finished_by, reason)
select opilio_uuid7(), p.policy_id, p.host_id, 'http', 'failed', 50, 50, n % 4, 3, now(), now(), 'test', now(), 'test', 'test'
from policy p, generate_series(1, 120) n"""


async def test_cards_on_a_phone_sort_too(admin: Page, opilio: Opilio, bot: Bot) -> None:
    await three_products(opilio, bot)
    await admin.set_viewport_size({"width": 390, "height": 800})
    await admin.goto("/policies")
    await expect(admin.locator("thead").get_by_role("link", name="Price")).to_be_visible()
    await expect(admin.locator("thead").get_by_text("7 days")).to_be_hidden()  # does not sort
    await press(admin, "Price")
    assert await column(admin, 2) == ["Product 2", "Product 0", "Product 1"]
    await press(admin, "Price")
    assert await column(admin, 2) == ["Product 1", "Product 0", "Product 2"]
