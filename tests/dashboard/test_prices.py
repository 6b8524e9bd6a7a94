"""Prices first: the list, the page of changes, the comparison, and charts that stay through live updates."""

import asyncio
import io
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from playwright.async_api import Page, expect
from pyarrow import parquet

from opilio.insights.prices import trend
from opilio.runtime.bootstrap import Opilio
from tests.dashboard.conftest import Bot, add_policy

NOW = datetime(2026, 1, 31, tzinfo=UTC)


async def crawl(opilio: Opilio, bot: Bot, policy_id: Any, **found: Any) -> None:
    await opilio.operator_actions.run_now(policy_id, "test")
    [job] = await bot.pull()
    await bot.submit(job, success=True, **found)


def test_a_trend_compares_with_the_last_price_and_with_a_week_ago() -> None:
    points = [
        (NOW - timedelta(days=days), Decimal(price))
        for days, price in ((40, 80), (8, 100), (1, 120), (0, 90))
    ]
    found = trend(points, NOW)
    assert (found.last_change, found.week, found.month) == (-0.25, -0.1, 0.125)
    young = trend([(NOW - timedelta(hours=2), Decimal(10)), (NOW, Decimal(11))], NOW)
    assert (young.last_change, young.week, young.month) == (0.1, None, None)
    assert trend([], NOW).last_change is None


async def test_the_list_shows_product_price_and_change(admin: Page, opilio: Opilio, bot: Bot) -> None:
    policy_id = await add_policy(opilio, "https://a.example/shoe")
    for price in (100, 80):
        await crawl(opilio, bot, policy_id, price=price, currency="EUR", title="Running shoe", in_stock=True)
    await admin.goto("/policies")
    row = admin.locator("tbody tr")
    await expect(row.locator(".product-name")).to_have_text("Running shoe")
    await expect(row.locator(".price")).to_contain_text("€80")
    await expect(row.locator(".change").first).to_have_text("▼ −20%")
    await expect(row).to_contain_text("in stock")
    await row.locator(".product-name").click()
    await expect(admin.get_by_role("row", name="Price €").first).to_contain_text("→ €80")


async def test_biggest_moves_first_filtered_and_compared(admin: Page, opilio: Opilio, bot: Bot) -> None:
    for name, prices in (("Lamp", (50, 60)), ("Shoe", (100, 50)), ("Book", (10, 10))):
        policy_id = await add_policy(opilio, f"https://a.example/{name}")
        for price in prices:
            await crawl(opilio, bot, policy_id, price=price, currency="EUR", title=name)
    await admin.goto("/prices")
    await expect(admin.locator(".product-name")).to_have_text(["Shoe", "Lamp"])
    await admin.goto("/prices?direction=up")
    await expect(admin.locator(".product-name")).to_have_text(["Lamp"])
    await admin.goto("/prices?least=30")
    await expect(admin.locator(".product-name")).to_have_text(["Shoe"])
    await admin.goto("/prices")
    for box in await admin.locator("input[data-row]").all():
        await box.check()
    await admin.get_by_role("button", name="Compare").click()
    await expect(admin.locator("[data-chart] svg")).to_contain_text("Shoe")
    await expect(admin.get_by_role("row", name="Shoe").locator(".change")).to_have_text("▼ −50%")
    answer = await admin.request.get(admin.url.replace("/compare?", "/compare.csv?"))
    assert (await answer.text()).count("Shoe") == 2


async def test_a_chart_stays_through_ten_seconds_of_live_updates(
    admin: Page, opilio: Opilio, bot: Bot
) -> None:
    policy_id = await add_policy(opilio, "https://a.example/1", crawl_config={"depth": 1})
    for price in (10, 11):
        await crawl(opilio, bot, policy_id, price=price, currency="EUR", title="Tea")
    requests: list[str] = []
    await admin.goto(f"/policies/{policy_id}")
    await expect(admin.locator("[data-chart=price] svg path").first).to_be_attached()
    admin.on("request", lambda request: requests.append(request.url))
    await admin.locator("summary", has_text="crawl_config").click()
    for second in range(10):
        if second == 3:
            await crawl(opilio, bot, policy_id, price=15, currency="EUR", title="Tea")
        assert await admin.locator("[data-chart=price] svg path").count() > 3, f"empty after {second} s"
        await admin.wait_for_timeout(1000)
    await expect(admin.locator(".price-now")).to_contain_text("€15")
    await expect(admin.locator("details[open] summary", has_text="crawl_config")).to_be_visible()
    again = [url for url in requests if url.endswith(f"/policies/{policy_id}")]
    assert 1 <= len(again) <= 4, again  # once for each state that the job went through


async def test_a_page_without_changes_is_loaded_once(admin: Page, opilio: Opilio) -> None:
    policy_id = await add_policy(opilio, "https://a.example/1")
    requests: list[str] = []
    admin.on("request", lambda request: requests.append(request.url))
    await admin.goto(f"/policies/{policy_id}")
    await expect(admin.locator("#live-marker")).to_have_text("Live")
    await admin.wait_for_timeout(2500)
    assert len([url for url in requests if url.endswith(f"/policies/{policy_id}")]) == 1


# Resolves when the price is on the screen: a poll of the test would add its own pause.
SHOWN = """(price) => new Promise((resolve) => {
  const look = () => document.querySelector(".price-now").textContent.includes(price) && resolve();
  new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });
  look();
})"""


async def test_a_new_price_is_on_the_screen_within_a_second(admin: Page, opilio: Opilio, bot: Bot) -> None:
    policy_id = await add_policy(opilio, "https://a.example/1")
    await crawl(opilio, bot, policy_id, price=10, currency="EUR", title="Tea")
    await admin.goto(f"/policies/{policy_id}")
    await expect(admin.locator("#live-marker")).to_have_text("Live")
    seconds = []
    for price in (11, 13, 12):  # the best of three: other tests may keep the machine busy
        await crawl(opilio, bot, policy_id, price=price, currency="EUR", title="Tea")
        began = time.monotonic()
        async with asyncio.timeout(5):
            await admin.evaluate(SHOWN, f"€{price}")
        seconds.append(time.monotonic() - began)
    assert min(seconds) < 1, seconds
    await expect(admin.locator(".price-head")).to_contain_text("▼ −7.7%")


async def test_price_changes_as_files(admin: Page, opilio: Opilio, bot: Bot) -> None:
    for name, prices in (("Lamp", (50, 60)), ("Shoe", (100, 50))):
        policy_id = await add_policy(opilio, f"https://a.example/{name}", labels={"team": name})
        for price in prices:
            await crawl(opilio, bot, policy_id, price=price, currency="EUR", title=name)
    await admin.goto("/prices?direction=down")
    await admin.get_by_role("button", name="Export").click()
    async with admin.expect_download() as download:
        await admin.get_by_role("link", name="CSV", exact=True).first.click()
    lines = (await (await download.value).path()).read_text().splitlines()
    assert (await download.value).suggested_filename == "price-changes-7d.csv"
    assert len(lines) == 2
    assert lines[1].split(",")[1] == "Shoe"
    answer = await admin.request.get("/prices/export?format=parquet")
    table = parquet.read_table(io.BytesIO(await answer.body()))
    assert table.select(["title", "old", "new", "change"]).to_pylist() == [
        {"title": "Shoe", "old": 100.0, "new": 50.0, "change": -0.5},
        {"title": "Lamp", "old": 50.0, "new": 60.0, "change": 0.2},
    ]
    assert (await admin.request.get("/prices/export?format=xls")).status == 400
