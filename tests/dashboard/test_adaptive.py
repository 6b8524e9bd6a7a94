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
