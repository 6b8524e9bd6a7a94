"""The adaptive schedule in the browser: switched on in the form, explained on the policy's page."""

from playwright.async_api import Page, expect

from opilio.runtime.bootstrap import Opilio
from tests.dashboard.conftest import add_policy


async def test_it_works(admin: Page, opilio: Opilio) -> None:
    policy_id = await add_policy(opilio, "https://shop.example/1")
    await admin.goto(f"/policies/{policy_id}")
    await expect(admin.locator("#adaptive")).to_have_count(0)
    await admin.goto(f"/policies/{policy_id}/edit")
    await admin.get_by_label("Schedule").select_option("adaptive")
    await admin.get_by_role("button", name="Save").click()
    await expect(admin.locator("#adaptive")).to_contain_text("not visited yet")
    assert (await opilio.insights.policy(policy_id)).schedule == "adaptive"


async def test_policies_are_switched_together_and_the_fleet_page_adds_up(admin: Page, opilio: Opilio) -> None:
    ids = [await add_policy(opilio, f"https://shop.example/{n}") for n in range(3)]
    await admin.goto("/adaptive")
    await expect(admin.get_by_text("No adaptive policies yet")).to_be_visible()
    await admin.goto("/policies")
    for box in await admin.locator("[data-row]").all():
        await box.check()
    await admin.locator(".bulk").get_by_role("button", name="Adaptive").click()
    await admin.get_by_role("button", name="Switch 3 policies to the adaptive schedule").click()
    await expect(admin.get_by_text("3 done")).to_be_visible()
    assert {(await opilio.insights.policy(one)).schedule for one in ids} == {"adaptive"}
    await opilio.budgets.refit()
    async with opilio.database.session() as session:
        await session.connection.execute(
            "update policy_state set interval_days = 30, rate_shape = 900, rate_days = 30, last_success_at = now()"
        )
    await admin.goto("/adaptive")
    pool = admin.locator(".pool")
    await expect(pool).to_contain_text("Expected freshness")
    await expect(pool).to_contain_text("Crawls saved a day")
    await expect(admin.locator("#costly tbody tr")).to_have_count(3)
    await expect(admin.locator("#costly")).to_contain_text("too often for a copy to stay fresh")


async def test_a_page_that_was_brought_forward_says_so(admin: Page, opilio: Opilio) -> None:
    policy_id = await add_policy(opilio, "https://shop.example/1", schedule="adaptive")
    await opilio.budgets.refit()
    async with opilio.database.session() as session:
        await session.connection.execute("update policy_due set pool = ''")
        await session.connection.execute(
            "update policy_state set last_success_at = now() - interval '1 day', interval_days = 5,"
            " next_run_at = now(), brought_forward_at = now()"
        )
    await admin.goto(f"/policies/{policy_id}")
    said = "brought forward because other pages of its folder changed"
    await expect(admin.locator("#adaptive")).to_contain_text(said)
    await expect(admin.get_by_text(said)).to_have_count(2)  # why it is not running, and the schedule
