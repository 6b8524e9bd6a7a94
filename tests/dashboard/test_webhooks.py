"""What went out, or could not, is sent again by a click."""

import asyncio

from playwright.async_api import Page, expect

from opilio.contracts.projects import ProjectInput
from opilio.contracts.webhooks import EndpointCreate
from opilio.runtime.bootstrap import Opilio
from tests.dashboard.conftest import Bot, add_policy
from tests.dashboard.listening import dead_letter_other_than, finished, listening, one_dead_letter
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
