"""Live pages: one look for all viewers, and a marker that never says more than it knows."""

import asyncio
import re

import asyncpg
import pytest
from playwright.async_api import Browser, Page, Route, expect

from opilio.insights.dashboard import Figures, Watched
from opilio.runtime.bootstrap import Opilio
from opilio.web.dashboard.live import Live
from tests.dashboard.conftest import add_policy, log_in, serving


async def test_one_look_serves_every_viewer(opilio: Opilio) -> None:
    live = Live(opilio.figures, tick=30)
    with live.watching(Watched()) as one, live.watching(Watched()) as two, live.watching(Watched()) as three:
        snapshots = [await asyncio.wait_for(viewer.next(), 5) for viewer in (one, two, three)]
    assert live.looks == 1
    assert len({id(snapshot) for snapshot, _ in snapshots}) == 1
    await live.close()


async def test_without_viewers_nothing_is_queried(opilio: Opilio) -> None:
    live = Live(opilio.figures, tick=0.01)
    with live.watching(Watched()) as viewer:
        await viewer.next()
    await asyncio.sleep(0.05)
    looks = live.looks
    await asyncio.sleep(0.1)
    assert live.looks == looks


async def test_a_viewer_of_a_job_sees_its_changes(opilio: Opilio) -> None:
    policy_id = await add_policy(opilio, "https://a.example/1")
    live = Live(opilio.figures, tick=0.01)
    with live.watching(Watched(policies=frozenset({policy_id}))) as mine, live.watching(Watched()) as other:
        assert (await mine.next())[1] is True  # something may have happened since the page was made
        assert (await mine.next())[1] is False
        await opilio.policies.set_enabled([policy_id], enabled=False)
        async with asyncio.timeout(5):
            while not (await mine.next())[1]:
                pass
        assert (await other.next())[1] is False
    await live.close()


async def test_a_database_that_is_away_is_reported(opilio: Opilio, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(_self: Figures) -> None:
        raise asyncpg.InterfaceError("connection is closed")

    monkeypatch.setattr(Figures, "system_status", away)
    live = Live(opilio.figures, tick=30)
    with live.watching(Watched()) as viewer:
        snapshot, _ = await viewer.next()
    assert (snapshot.system_status, snapshot.fault) == (None, "connection is closed")
    await live.close()


async def test_a_script_that_arrives_late_does_not_keep_the_page_from_living(admin: Page) -> None:
    async def late(route: Route) -> None:
        await asyncio.sleep(0.7)
        await route.continue_()

    await admin.route("**/hx-sse.min.js*", late)
    await admin.goto("/")
    await expect(admin.locator("#live-marker")).to_have_text("Live")


async def test_the_page_dims_when_the_server_is_away_and_says_since_when(
    browser: Browser, opilio: Opilio
) -> None:
    async with serving(opilio) as address:
        page = await (await browser.new_context(base_url=address, locale="en-GB")).new_page()
        await page.clock.install()
        await log_in(page, opilio, "admin", "admin")
        await expect(page.locator("#live-marker")).to_have_attribute("data-state", "live")
        await expect(page.locator("#main")).not_to_have_class(re.compile("outage"))
    await page.clock.fast_forward(40_000)
    await expect(page.locator("#main")).to_have_class(re.compile("outage"))
    await expect(page.locator("#live-marker")).to_have_text(re.compile(r"^No update for \d\d s$"))
    await page.context.close()


async def test_the_row_that_keys_reached_stays_current_in_a_refreshed_list(
    admin: Page, opilio: Opilio
) -> None:
    ids = [await add_policy(opilio, f"https://a.example/{n}") for n in range(3)]
    await settled_list(admin)
    await admin.keyboard.press("j")
    await admin.keyboard.press("j")
    await opilio.policies.set_enabled([ids[2]], enabled=False)
    await expect(admin.locator("tbody tr").first.locator("input[data-row]")).to_have_attribute(
        "data-state", "off"
    )
    await expect(admin.locator("tr.current a:focus")).to_have_text("https://a.example/1")
    await admin.keyboard.press("x")
    await expect(admin.get_by_label("https://a.example/1", exact=True)).to_be_checked()


async def test_a_refresh_under_way_does_not_untick_a_row(admin: Page, opilio: Opilio) -> None:
    policy_id = await add_policy(opilio, "https://a.example/1")
    await settled_list(admin)
    asked, answer = asyncio.Event(), asyncio.Event()

    async def late(route: Route) -> None:
        asked.set()
        await answer.wait()
        await route.continue_()

    await admin.route("**/policies", late)
    await opilio.policies.set_enabled([policy_id], enabled=False)
    await asyncio.wait_for(asked.wait(), 20)
    box = admin.get_by_label("https://a.example/1", exact=True)
    await box.check()
    answer.set()
    await expect(admin.get_by_role("button", name="Show changes")).to_be_visible()
    await expect(box).to_be_checked()
    await admin.get_by_role("button", name="Show changes").click()
    await expect(box).to_have_attribute("data-state", "off")


async def settled_list(admin: Page) -> None:
    """The list of policies, after the refresh that every page makes of itself once it is live."""
    async with admin.expect_response(lambda response: response.request.headers.get("hx-request") == "true"):
        await admin.goto("/policies")
    await expect(admin.locator("#live-marker")).to_have_attribute("data-state", "live")
