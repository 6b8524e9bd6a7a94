"""Charts: values under the pointer, zoom, a click on what they count; and live pages that do not jump."""

import re

from playwright.async_api import Page, expect

from opilio.runtime.bootstrap import Opilio
from tests.dashboard.conftest import Bot, add_policy
from tests.dashboard.listening import fill_projects
from tests.dashboard.test_prices import crawl

SHIFTS = """
globalThis.shifts = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) globalThis.shifts += entry.value;
}).observe({ type: "layout-shift", buffered: true });
"""


async def test_a_chart_tells_values_and_zooms(admin: Page, opilio: Opilio, bot: Bot) -> None:
    policy_id = await add_policy(opilio, "https://a.example/tea")
    for price in (10, 14, 12):
        await crawl(opilio, bot, policy_id, price=price, currency="EUR", title="Tea")
    await admin.goto(f"/policies/{policy_id}")
    chart = admin.locator("[data-chart=price]")
    await expect(chart).to_have_attribute("data-drawn", "yes")
    box = await chart.bounding_box()
    assert box is not None
    left, right, middle = (
        box["x"] + box["width"] * 0.3,
        box["x"] + box["width"] * 0.7,
        box["y"] + box["height"] / 2,
    )

    await admin.mouse.move(right, middle)
    await expect(chart.locator(".chart-tip")).to_contain_text("Price: 1")
    whole = await chart.locator(".line").get_attribute("d")
    await admin.mouse.move(left, middle)
    await admin.mouse.down()
    await admin.mouse.move(right, middle, steps=4)
    await admin.mouse.up()
    await expect(chart.locator(".line")).not_to_have_attribute("d", str(whole))
    await chart.dblclick()
    await expect(chart.locator(".line")).to_have_attribute("d", str(whole))


async def test_the_time_axis_shows_days_in_any_zone(admin: Page, opilio: Opilio, site: str) -> None:
    await fill_projects(opilio)
    for zone in ("", "Asia/Tokyo", "America/Los_Angeles"):
        await admin.context.add_cookies([{"name": "opilio_zone", "value": zone, "url": site}])
        await admin.goto("/analytics/tea")
        for name in ("sentiment", "voices"):
            chart = admin.locator(f"[data-chart={name}]")
            await expect(chart).to_have_attribute("data-drawn", "yes")
            labels = await chart.locator("svg > text").all_text_contents()
            days = [label for label in labels if re.fullmatch(r"(Jan|Feb) \d+|\d+ (Jan|Feb)", label)]
            assert len(days) == len(set(days)) > 3, f"{name} in {zone}: {labels}"


async def test_live_pages_do_not_jump(admin: Page, opilio: Opilio, bot: Bot) -> None:
    first = await add_policy(opilio, "https://a.example/tea")
    await crawl(opilio, bot, first, price=10, currency="EUR", title="Tea")
    await admin.add_init_script(SHIFTS)
    for path, seen in ((f"/policies/{first}", "€12"), ("/policies", "€13"), ("/", "Tea")):
        await admin.goto(path)
        await expect(admin.locator("#live-marker")).to_have_attribute("data-state", "live")
        await admin.evaluate("() => { globalThis.shifts = 0; }")
        await crawl(
            opilio, bot, first, price={"€12": 12, "€13": 13}.get(seen, 14), currency="EUR", title="Tea"
        )
        await expect(admin.locator("main, .page-wrapper").first).to_contain_text(seen)
        shifts = await admin.evaluate("() => globalThis.shifts")
        assert shifts < 0.1, f"{path} moved by {shifts}"
