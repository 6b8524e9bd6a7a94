"""Value alerts: made on a page, fired by a crawl, switched off."""

from playwright.async_api import Page, expect

from opilio.delivery.outbox.relay import Relay
from opilio.delivery.outbox.routing import to_broker
from opilio.loop import drain
from opilio.runtime.bootstrap import Opilio
from tests.dashboard.conftest import Bot, add_policy
from tests.dashboard.test_prices import crawl


async def test_an_alert_is_added_for_a_product_fires_and_is_switched_off(
    admin: Page, opilio: Opilio, bot: Bot
) -> None:
    policy_id = await add_policy(opilio, "https://a.example/shoe")
    await crawl(opilio, bot, policy_id, price=100, currency="EUR", title="Running shoe", in_stock=True)
    await admin.goto(f"/policies/{policy_id}")
    await admin.get_by_role("link", name="Alert", exact=True).click()
    await expect(admin.get_by_label("Which")).to_have_value("https://a.example/shoe")
    await expect(admin.get_by_label("Value name")).to_be_hidden()
    await admin.get_by_label("Limit").fill("90")
    await admin.get_by_role("button", name="Create alert").click()
    row = admin.locator("#alerts tbody tr")
    await expect(row).to_contain_text("price below 90")
    await expect(row).to_contain_text("Running shoe")
    await expect(admin.locator("#fired")).to_contain_text("Nothing fired yet")

    await crawl(opilio, bot, policy_id, price=80, currency="EUR", title="Running shoe", in_stock=True)
    await drain(Relay(opilio.database, to_broker).run_once)
    await admin.reload()
    fired = admin.locator("#fired tbody tr")
    await expect(fired).to_contain_text("€100")
    await expect(fired.locator(".price")).to_have_text("€80.00")
    await expect(fired.locator(".change")).to_have_text("▼ −20%")

    await row.get_by_role("button", name="Disable").click()
    await expect(row.locator(".badge")).to_have_text("off")
    assert (await opilio.alerts.page()).items[0].enabled is False
    await row.get_by_role("link", name="Price below 90").click()
    await admin.get_by_label("Limit").fill("70")
    await admin.get_by_role("button", name="Save").click()
    await expect(row).to_contain_text("price below 70")
    await row.get_by_role("button", name="Delete").click()
    await admin.locator("#confirm-yes").click()
    await expect(admin.get_by_text("No alerts yet")).to_be_visible()


async def test_alerts_for_hosts_labels_and_everything(admin: Page, opilio: Opilio) -> None:
    await admin.goto("/alerts")
    for what, scope, target, value in (
        ("price_percent", "host", "a.example", "5"),
        ("back_in_stock", "label", "team=shoes", ""),
        ("price_changed", "all", "", ""),
    ):
        await admin.get_by_label("When").select_option(what)
        await admin.get_by_label("For", exact=True).select_option(scope)
        if value:
            await admin.get_by_label("Limit").fill(value)
        if target:
            await admin.get_by_label("Which").fill(target)
        await admin.get_by_role("button", name="Create alert").click()
    rows = admin.locator("#alerts tbody tr")
    await expect(rows).to_have_count(3)
    await expect(rows.nth(0)).to_contain_text("all products")
    await expect(rows.nth(1)).to_contain_text("team=shoes")
    await expect(rows.nth(2)).to_contain_text("price changes by 5 % or more")
    # A refusal keeps what was typed.
    await admin.get_by_label("For", exact=True).select_option("policy")
    await admin.get_by_label("Which").fill("https://nowhere.example/")
    await admin.get_by_label("Limit").fill("7")
    await admin.get_by_role("button", name="Create alert").click()
    await expect(admin.get_by_role("alert").filter(has_text="there is no policy for")).to_be_visible()
    await expect(admin.get_by_label("Limit")).to_have_value("7")
