"""Getting in: the one-time link, the password, where one wanted to go, and how often one may guess."""

import asyncio
import re
from uuid import UUID
from zoneinfo import ZoneInfo

from playwright.async_api import Page, expect

from opilio.runtime.bootstrap import Opilio
from tests.dashboard.conftest import PASSWORD, Bot, add_policy, log_in


async def test_the_link_leads_to_a_live_overview(admin: Page) -> None:
    await expect(admin.get_by_role("heading", name="Overview")).to_be_visible()
    await expect(admin.locator("#live-marker")).to_have_text("Live")
    await expect(admin.get_by_role("heading", name="First steps")).to_be_visible()


async def test_first_steps_tick_themselves_off(admin: Page, opilio: Opilio, bot: Bot) -> None:
    done = admin.locator("#first-steps .step-done")
    await expect(done).to_have_count(0)
    policy_id = await add_policy(opilio, "https://a.example/1")
    await expect(done).to_have_text(re.compile("Add a URL"))
    await opilio.operator_actions.run_now(policy_id, "test")
    [job] = await bot.pull()
    await expect(done).to_have_count(2)
    await bot.submit(job, success=True, price=9, currency="EUR")
    await expect(admin.locator("#first-steps .first-step")).to_have_count(0)


async def test_after_the_password_one_is_where_one_wanted_to_go(page: Page, opilio: Opilio) -> None:
    await log_in(page, opilio, "admin", "admin")
    await page.get_by_role("button", name="admin").click()
    await page.get_by_role("button", name="Log out").click()
    await page.goto("/jobs?status=failed")
    await page.get_by_label("Password", exact=True).fill(PASSWORD)
    await page.get_by_role("button", name="Log in").click()
    await page.wait_for_url("**/jobs?status=failed")


async def test_no_redirect_leads_to_another_site(page: Page, opilio: Opilio, site: str) -> None:
    await log_in(page, opilio, "admin", "admin")
    await page.goto("/login?next=//evil.example/")
    await page.get_by_label("Password", exact=True).fill(PASSWORD)
    await page.get_by_role("button", name="Log in").click()
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    assert page.url == f"{site}/"


async def test_guessing_is_slowed_down(page: Page, opilio: Opilio) -> None:
    # Side by side, so that all are within one minute on a busy machine, too.
    wrong = {"name": "admin", "password": "a wrong guess"}
    guesses = [
        page.request.post("/login", form=wrong, timeout=60_000)
        for _ in range(opilio.settings.login_attempts_per_minute)
    ]
    assert {guess.status for guess in await asyncio.gather(*guesses)} == {401}
    await page.goto("/login")
    await page.get_by_label("Password", exact=True).fill("a wrong guess")
    await page.get_by_role("button", name="Log in").click()
    await expect(page.get_by_role("alert")).to_contain_text("too many login attempts")


async def test_a_refused_change_says_why_and_keeps_the_password(admin: Page, opilio: Opilio) -> None:
    for current, again, why in (
        ("not my password", "a new long password", "wrong"),
        (PASSWORD, "another long password", "the two passwords differ"),
    ):
        await admin.goto("/account")
        await admin.get_by_label("Current password").fill(current)
        await admin.get_by_label("New password", exact=True).fill("a new long password")
        await admin.get_by_label("Repeat the new password").fill(again)
        await admin.get_by_role("button", name="Change password").click()
        await expect(admin.get_by_role("alert").filter(has_text=why)).to_be_visible()
    assert await opilio.operators.log_in("admin", PASSWORD)


async def test_times_are_shown_in_the_chosen_zone(admin: Page, opilio: Opilio, bot: Bot, site: str) -> None:
    await opilio.operator_actions.run_now(await add_policy(opilio, "https://a.example/1"), "operator:admin")
    (job,) = await bot.pull()
    moment = (await opilio.insights.timeline(UUID(job["job_id"])))[0].at
    await admin.goto("/account")
    assert (await admin.get_by_label("Time zone").locator("option").first.inner_text()).startswith(
        "As this browser ("
    )
    for zone in ("Asia/Ho_Chi_Minh", "America/New_York"):
        await admin.goto("/account")
        async with admin.expect_navigation():
            await admin.get_by_label("Time zone").select_option(zone)
        await expect(admin.get_by_label("Time zone")).to_have_value(zone)
        await admin.goto(f"/jobs/{job['job_id']}")
        shown = admin.locator(f"relative-time[datetime='{moment.isoformat()}'][format=datetime]").first
        await expect(shown).to_contain_text(f"{moment.astimezone(ZoneInfo(zone)):%H:%M:%S}")
    # A name that is no zone is not used.
    await admin.context.add_cookies([{"name": "opilio_zone", "value": "Nowhere/Else", "url": site}])
    await admin.goto("/account")
    await expect(admin.get_by_label("Time zone")).to_have_value("")


async def test_the_account_page_changes_the_password_and_ends_other_sessions(
    admin: Page, opilio: Opilio
) -> None:
    other = await opilio.operators.log_in("admin", PASSWORD)
    await admin.goto("/account")
    await expect(admin.locator("#sessions tbody tr")).to_have_count(2)
    await admin.get_by_role("button", name="Log out all other sessions").click()
    await expect(admin.get_by_role("alert").filter(has_text="1 session ended.")).to_be_visible()
    assert await opilio.operators.session(other) is None
    await admin.get_by_role("button", name="Tiếng Việt").last.click()
    await expect(admin.locator("html")).to_have_attribute("lang", "vi")
    await admin.get_by_role("button", name="English").last.click()
    await admin.get_by_label("Current password").fill(PASSWORD)
    await admin.get_by_label("New password", exact=True).fill(f"{PASSWORD} new")
    await admin.get_by_label("Repeat the new password").fill(f"{PASSWORD} new")
    await admin.get_by_role("button", name="Change password").click()
    await expect(admin.get_by_role("status")).to_contain_text("The password was changed.")
    # The audit log names people and things, and is searched.
    policy_id = await add_policy(opilio, "https://a.example/1")
    await opilio.operator_actions.run_now(policy_id, "operator:linh")
    await admin.goto("/settings/audit?q=linh")
    await expect(admin.locator("tbody tr")).to_have_count(1)
    await expect(admin.locator("tbody tr")).to_contain_text("linh operator")
    await expect(admin.locator("tbody a")).to_have_text("https://a.example/1")
