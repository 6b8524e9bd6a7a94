"""Charts: values under the pointer, zoom, a click on what they count; and live pages that do not jump."""

import re
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from playwright.async_api import Locator, Page, expect

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


async def test_times_of_charts_and_days_of_filters_are_in_the_zone_that_the_viewer_chose(
    admin: Page, opilio: Opilio, bot: Bot
) -> None:
    policy_id = await add_policy(opilio, "https://a.example/tea")
    await crawl(opilio, bot, policy_id, price=10, currency="EUR", title="Tea")
    # Hours of UTC begin there at half past.
    await choose_zone(admin, "Asia/Kolkata")
    async with admin.expect_response("**/series.json") as answer:
        await admin.goto("/hosts/a.example")
    hours = [datetime.fromisoformat(row["at"]) for row in (await (await answer.value).json())["hours"]]
    chart = admin.locator("[data-chart=host]")
    await expect(chart).to_have_attribute("data-drawn", "yes")
    left, right = await plot_of(chart)
    first, last = hours[0] - timedelta(minutes=30), hours[-1] + timedelta(minutes=30)
    marked = 0
    for tick in await chart.locator("svg > text[text-anchor=middle]").all():
        x, text = float(await tick.get_attribute("x") or 0), await tick.text_content()
        stands = (first + (last - first) * (x - left) / (right - left)).astimezone(ZoneInfo("Asia/Kolkata"))
        near = stands + timedelta(minutes=5)  # a pixel is two minutes
        if near.minute < 10:  # else it was moved to fit in
            assert text in (f"{near:%H:00}", f"{near:%b} {near.day}"), f"{text} stands at {stands}"
            marked += 1
    assert marked > 3

    box = await chart.bounding_box()
    assert box is not None
    end = left + (right - left) * ((hours[-1] - first) / (last - first))
    await admin.mouse.move(box["x"] + end, box["y"] + box["height"] / 2)
    at = hours[-1].astimezone(ZoneInfo("Asia/Kolkata"))
    await expect(chart.locator(".chart-tip b")).to_have_text(f"{at:%b} {at.day}, {at:%H:30}")

    # These two never share a date.
    crawled = (await opilio.insights.results(limit=1)).items[0].crawled_at
    day = crawled.astimezone(ZoneInfo("Pacific/Kiritimati")).date().isoformat()
    for zone, rows in (("Pacific/Kiritimati", 1), ("Pacific/Niue", 0)):
        await choose_zone(admin, zone)
        await admin.goto(f"/results?since={day}&until={day}")
        await expect(admin.locator("tbody tr")).to_have_count(rows)


async def choose_zone(page: Page, zone: str) -> None:
    await page.goto("/account")
    async with page.expect_navigation():
        await page.get_by_label("Time zone").select_option(zone)


async def plot_of(chart: Locator) -> tuple[float, float]:
    """Where the lines of the grid begin and end."""
    line = await chart.locator("path.grid").first.get_attribute("d")
    found = re.fullmatch(r"M([\d.]+) [\d.]+H([\d.]+)", str(line))
    assert found is not None, line
    return float(found[1]), float(found[2])


async def test_a_host_shows_when_it_was_cooling_down(admin: Page, opilio: Opilio, bot: Bot) -> None:
    policy_id = await add_policy(opilio, "https://a.example/tea")
    await admin.goto("/hosts/a.example")
    await expect(admin.locator("[data-chart=host]")).to_have_attribute("data-drawn", "yes")
    await expect(admin.locator(".band")).to_have_count(0)
    await expect(admin.get_by_text("Cooling periods")).to_have_count(0)

    await opilio.operator_actions.run_now(policy_id, "test")
    [job] = await bot.pull()
    await bot.submit(job, success=False, error_code="RATE_LIMITED", error_msg="429", retry_after=1200)
    await admin.reload()
    await expect(admin.locator("#cooling tbody tr")).to_have_count(1)
    await expect(admin.locator("#cooling tbody tr")).to_contain_text("20 min")
    await expect(admin.locator("#cooling")).to_contain_text("a.example answered RATE_LIMITED to bot-1")
    chart = admin.locator("[data-chart=host]")
    await expect(chart).to_contain_text("cooling down")
    band = await chart.locator(".band").bounding_box()
    assert band is not None
    await admin.mouse.move(band["x"] + 1, band["y"] + band["height"] / 2)
    await expect(chart.locator(".chart-tip")).to_contain_text("cooling down: ")


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
