"""Forms: what is confirmed and how, what can be reloaded, what an address contains."""

from playwright.async_api import Page, expect

from opilio.contracts.webhooks import EndpointCreate
from opilio.runtime.bootstrap import Opilio
from tests.dashboard.conftest import Bot, add_policy
from tests.dashboard.listening import listening
from tests.delivery.receiver import Receiver


async def test_a_confirm_dialog_fits_its_text_and_names_the_action(admin: Page, opilio: Opilio) -> None:
    policy_id = await add_policy(opilio, "https://a.example/1")
    await admin.goto(f"/policies/{policy_id}")
    await admin.get_by_role("button", name="Delete").click()
    dialog = admin.locator("dialog[open]")
    box = await dialog.bounding_box()
    assert box is not None
    assert box["height"] < 300
    text = await admin.locator("#confirm-text").bounding_box()
    assert text is not None
    assert text["x"] - box["x"] > 12, "the text keeps a distance from the edge"
    await dialog.get_by_role("button", name="Delete").click()
    await expect(admin.get_by_role("alert")).to_contain_text("Policy deleted")


async def test_pages_that_show_a_secret_can_be_reloaded(admin: Page) -> None:
    await admin.goto("/bots")
    await admin.get_by_label("Bot name").fill("crawler-9")
    await admin.get_by_role("button", name="Create token").click()
    await expect(admin.locator("#token")).to_be_visible()
    await admin.reload()
    await expect(admin.locator("main h1")).to_have_text("Bots")
    await expect(admin.locator("#token")).to_have_count(0)


async def test_the_result_of_a_webhook_test_can_be_reloaded(admin: Page, opilio: Opilio) -> None:
    async with Receiver() as receiver:
        endpoint = await opilio.webhooks.create(
            EndpointCreate(url=receiver.url(), events=["crawl.job.*"]), actor="test"
        )
        await admin.goto(f"/webhooks/{endpoint.id}")
        await admin.get_by_role("button", name="Send test event").click()
        await expect(admin.get_by_text("Test event delivered.")).to_be_visible()
    await admin.reload()
    await expect(admin.locator("main h1")).to_be_visible()
    await admin.goto(f"/webhooks/{endpoint.id}/test")
    await expect(admin.get_by_role("heading")).to_contain_text("not allowed")


async def test_resending_asks_with_the_count(admin: Page, opilio: Opilio, bot: Bot) -> None:
    async with Receiver() as receiver, listening(opilio):
        endpoint = await opilio.webhooks.create(
            EndpointCreate(url=receiver.url(), events=["crawl.job.completed"]), actor="test"
        )
        policy_id = await add_policy(opilio, "https://a.example/1")
        for price in (1, 2):
            await opilio.operator_actions.run_now(policy_id, "test")
            [job] = await bot.pull()
            await bot.submit(job, success=True, price=price, currency="EUR")
        await receiver.arrived(2)
        await admin.goto(f"/webhooks/{endpoint.id}")
        await admin.get_by_role("link", name="Resend…").click()
        assert len(receiver.got) == 2
        await admin.get_by_role("button", name="Resend 2 events").click()
        await expect(admin.get_by_role("alert")).to_contain_text("2 events queued for delivery.")
        await receiver.arrived(4)


async def test_retry_twenty_jobs_in_four_actions_without_a_token_in_an_address(
    admin: Page, opilio: Opilio, bot: Bot
) -> None:
    for n in range(20):
        policy_id = await add_policy(opilio, f"https://a.example/{n}", max_retries=0)
        await opilio.operator_actions.run_now(policy_id, "test")
    for job in await bot.pull(20):
        await bot.submit(job, success=False, error_code="TIMEOUT")
    addresses: list[str] = []
    admin.on("request", lambda request: addresses.append(request.url))
    await admin.goto("/jobs?status=failed")
    await admin.get_by_label("Select all on this page").check()
    toolbar = admin.get_by_role("toolbar")
    await expect(toolbar.get_by_role("button", name="Expire lock")).to_be_hidden()
    await toolbar.get_by_role("button", name="Retry").click()
    await admin.get_by_role("button", name="Retry 20 jobs").click()
    await expect(admin.get_by_role("status").filter(has_text="20 done")).to_be_visible()
    await expect(admin.locator("#bulk tbody tr").first).to_contain_text("https://a.example/")
    assert not [url for url in addresses if "csrf" in url.lower()]
    assert len((await opilio.insights.jobs(status="pending")).items) == 20
