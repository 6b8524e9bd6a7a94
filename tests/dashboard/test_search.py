"""Search: from a few letters to anything, and lists by what people remember of a thing."""

import asyncio

from playwright.async_api import Page, expect

from opilio.contracts.webhooks import EndpointCreate
from opilio.delivery.outbox.relay import Relay
from opilio.delivery.outbox.routing import to_broker
from opilio.loop import drain
from opilio.runtime.bootstrap import Opilio
from tests.dashboard.conftest import Bot, add_policy
from tests.dashboard.test_prices import crawl


async def test_everything_is_found_by_what_people_call_it(admin: Page, opilio: Opilio, bot: Bot) -> None:
    shoe = await add_policy(opilio, "https://a.example/p1", max_retries=0)
    lamp = await add_policy(opilio, "https://b.example/p2")
    await crawl(
        opilio,
        bot,
        shoe,
        price=9,
        currency="EUR",
        title="Running shoe",
        in_stock=True,
        data={"sku": "SKU-77"},
    )
    await crawl(opilio, bot, lamp, price=5, currency="USD", title="Desk lamp", in_stock=False)
    await opilio.operator_actions.run_now(shoe, "test")
    [job] = await bot.pull()
    await bot.submit(job, success=False, error_code="BLOCKED", error_msg="captcha")
    await opilio.webhooks.create(
        EndpointCreate(url="http://127.0.0.1:9/hook", events=["*"], description="warehouse"), actor="test"
    )
    await drain(Relay(opilio.database, to_broker).run_once)

    await admin.goto("/")
    results = admin.locator("#palette-results")
    for typed, text, target in (
        ("running sh", "Running shoe", f"/policies/{shoe}"),
        ("SKU-77", "Running shoe", f"/policies/{shoe}"),
        ("warehouse", "127.0.0.1:9/hook", "/webhooks/"),
        ("blocked", "BLOCKED", "/jobs?status=failed&error=BLOCKED"),
        ("bot-1", "bot-1", "/bots/bot-1"),
        ("b.example", "b.example", "/hosts/b.example"),
        ("api key", "API keys", "/settings"),
        ("failed jobs", "Failed jobs", "/jobs?status=failed"),
    ):
        await admin.keyboard.press("Control+k")
        async with asyncio.timeout(30):
            while not await typed_finds(admin, typed, target):  # error codes are a few seconds old
                await asyncio.sleep(0.2)
        await expect(results.locator(f'a[href^="{target}"]').first).to_contain_text(text)
        await admin.keyboard.press("Escape")
    await admin.keyboard.press("Control+k")
    await admin.locator("#palette input").fill("dark")
    # The list of everything, which opens with the palette, has it further down, and goes when the answer comes.
    await expect(results.locator("a, button").first).to_contain_text("Dark theme")
    await admin.keyboard.press("ArrowDown")
    await admin.keyboard.press("Enter")
    await expect(admin.locator("html")).to_have_attribute("data-bs-theme", "dark")

    names = admin.locator(".product-name")
    for query, shown in (
        ("q=lamp", ["Desk lamp"]),
        ("currency=eur", ["Running shoe"]),
        ("stock=no", ["Desk lamp"]),
        ("since=2020-01-01&until=2020-12-31", []),
        ("q=SKU-77", ["Running shoe"]),
    ):
        await admin.goto(f"/results?{query}")
        await expect(names).to_have_text(shown)
    await admin.goto("/events")
    subject = admin.locator("tbody tr", has_text="crawl.job.failed").locator("a")
    await expect(subject).to_have_text("Running shoe")
    await subject.click()
    await expect(admin.locator("#cause")).to_contain_text("captcha")


async def typed_finds(page: Page, typed: str, target: str) -> bool:
    async with page.expect_response(lambda response: "/palette" in response.url):
        await page.locator("#palette input").fill("")
        await page.locator("#palette input").fill(typed)
    await page.wait_for_timeout(100)
    return await page.locator(f'#palette-results a[href^="{target}"]').count() > 0
