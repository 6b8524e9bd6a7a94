"""What went out, or could not, is sent again by a click."""

import asyncio
import json

from playwright.async_api import Page, expect

from opilio.contracts.projects import ProjectInput
from opilio.contracts.webhooks import EndpointCreate
from opilio.demo import serving_shop
from opilio.runtime.bootstrap import Opilio
from opilio.runtime.instance_file import DEMO_NOTE
from tests.dashboard.conftest import Bot, add_policy
from tests.dashboard.listening import dead_letter_other_than, finished, listening, one_dead_letter
from tests.delivery import replays
from tests.delivery.receiver import Receiver


async def test_replay_a_webhook(admin: Page, opilio: Opilio, bot: Bot) -> None:
    async with Receiver() as receiver, listening(opilio):
        endpoint = await opilio.webhooks.create(
            EndpointCreate(url=receiver.url(), events=["crawl.job.*"]), actor="tests"
        )
        policy_id = await add_policy(opilio, "https://a.example/1")
        await opilio.operator_actions.run_now(policy_id, "test")
        [job] = await bot.pull()
        await bot.submit(job, success=True, price=1, currency="EUR")
        await receiver.arrived(1)
        async with asyncio.timeout(20):  # the answer is on its way back
            while not (await opilio.webhooks.attempts(endpoint.id)).items:
                await asyncio.sleep(0.1)
        await admin.goto(f"/webhooks/{endpoint.id}")
        await admin.locator("tbody").get_by_role("button", name="Resend").click()
        await expect(admin.get_by_role("alert")).to_contain_text("1 event queued for delivery.")
        first, second = await receiver.arrived(2)
    assert (first.id, first.body) == (second.id, second.body)


async def test_replay_the_progress_of_a_project(admin: Page, opilio: Opilio) -> None:
    async with Receiver() as receiver, listening(opilio):
        await opilio.projects.create(
            ProjectInput(project_id="tea", brand_keywords=["tea"], webhook_url=receiver.url()), by="test"
        )
        await finished(opilio, "tea")
        await receiver.arrived(1)
        await admin.goto("/projects/tea")
        done = admin.locator("tr", has_text="100%").filter(has_text="delivered")
        async with asyncio.timeout(30):  # the last delivery is recorded after it arrived
            while not await done.count():
                await admin.reload()
        await done.get_by_role("button", name="Resend").click()
        await expect(admin.get_by_role("alert")).to_contain_text("1 event queued for delivery.")
        await expect(admin.locator("h1")).to_contain_text("done")
        async with asyncio.timeout(20):
            while sum(b'"status":"DONE"' in got.body for got in receiver.got) < 2:
                await asyncio.sleep(0.1)


async def test_replay_a_dead_letter(admin: Page, opilio: Opilio) -> None:
    async with listening(opilio):
        letter = await one_dead_letter(opilio)
        await admin.goto("/dlq")
        await admin.locator("tbody a").first.click()
        await expect(admin.locator("pre").first).to_contain_text("{ no JSON")
        await admin.get_by_role("button", name="Resend").click()
        await expect(admin.get_by_role("alert")).to_contain_text("Message sent again.")
        await expect(admin.locator(".badge.good", has_text="resent")).to_be_visible()
        # It is as wrong as before: the collector gives it up once more, and says so.
        await dead_letter_other_than(opilio, letter)
    await admin.goto("/dlq")
    await expect(admin.get_by_role("button", name="Resend")).to_have_count(1)


async def test_a_dead_letter_is_resent_as_it_was_published(admin: Page, opilio: Opilio) -> None:
    letter = await replays.one_dead_letter(opilio.database, opilio.settings)
    await admin.goto(f"/dlq/{letter}")
    await admin.get_by_role("button", name="Resend").click()
    await expect(admin.get_by_role("alert")).to_contain_text("Message sent again.")
    await replays.assert_replayed_as_it_was(opilio.database)


async def test_the_demo_has_a_receiver_that_shows_what_arrived(admin: Page, opilio: Opilio) -> None:
    await admin.goto("/webhooks/receiver")
    await expect(admin.get_by_text("belongs to the demo")).to_be_visible()
    async with serving_shop() as shop, listening(opilio):
        note = opilio.settings.data_dir / DEMO_NOTE
        note.write_text(json.dumps({"address": shop.address, "busy_address": shop.busy_address}))
        await admin.goto("/webhooks")
        await admin.get_by_role("link", name="Test receiver").click()
        await admin.get_by_role("button", name="Send events here").click()
        # A newcomer adds a page of the demo's shop, by the form.
        await admin.goto("/policies/new")
        await admin.locator("#f-url, [name=url]").first.fill(f"{shop.address}/products/1")
        await admin.get_by_role("button", name="Create and run").click()
        policy = (await opilio.insights.policies()).items[0]
        assert policy.url == f"{shop.address}/products/1"
        await admin.goto("/webhooks/receiver")
        await admin.get_by_role("link", name="Webhook", exact=True).click()
        await admin.get_by_role("button", name="Send test event").click()
        await expect(admin.get_by_role("alert").filter(has_text="Test event delivered.")).to_be_visible()
        await expect(admin.locator("h1")).to_contain_text("/webhooks/test")
        await admin.goto("/webhooks/receiver")
        row = admin.locator("tbody tr").first
        await expect(row).to_contain_text("signed")
