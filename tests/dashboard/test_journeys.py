"""What people come for, from the first page, with the presses that it takes: each journey has a limit."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.async_api import Page, expect

from opilio.runtime.bootstrap import Opilio
from tests.dashboard.conftest import Bot, add_policy
from tests.dashboard.listening import listening
from tests.dashboard.test_jobs import failed
from tests.dashboard.test_prices import crawl
from tests.delivery.receiver import Receiver

# Keys and pointers; typing an address is no press.
COUNT = "addEventListener('pointerdown', (event) => { if (event.isTrusted) countPress(); }, true);"


class Presses:
    """How often a person pressed something."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def at_most(self, limit: int) -> Iterator[None]:
        before = self.count
        yield
        assert 0 < self.count - before <= limit


@pytest.fixture
async def presses(page: Page) -> Presses:
    presses = Presses()

    def count() -> None:
        presses.count += 1

    await page.expose_function("countPress", count)
    await page.add_init_script(COUNT)
    return presses


async def test_add_a_page_and_run_it(admin: Page, opilio: Opilio, presses: Presses) -> None:
    await admin.goto("/")
    with presses.at_most(2):
        await admin.get_by_role("link", name="New policy").first.click()
        await admin.get_by_label("URL", exact=True).fill("https://a.example/1")
        await admin.get_by_role("button", name="Create and run").click()
        await expect(admin.get_by_role("heading", name="https://a.example/1")).to_be_visible()
    assert len((await opilio.insights.jobs(status="pending")).items) == 1


async def test_why_is_it_not_running(admin: Page, opilio: Opilio, presses: Presses) -> None:
    await add_policy(opilio, "https://a.example/1", enabled=False)
    await admin.goto("/")
    with presses.at_most(2):
        await admin.get_by_role("link", name="Policies", exact=True).first.click()
        await admin.get_by_role("link", name="https://a.example/1").click()
        await expect(admin.locator("#why")).to_contain_text("disabled")


async def test_retry_twenty_failed_jobs(admin: Page, opilio: Opilio, bot: Bot, presses: Presses) -> None:
    for n in range(20):
        await failed(opilio, bot, f"https://a.example/{n}")
    await admin.goto("/jobs")
    with presses.at_most(4):
        await admin.locator(".nav-link", has_text="failed").click()
        await expect(admin.locator("tbody tr")).to_have_count(20)
        await admin.get_by_role("button", name="All matching…").click()
        await admin.get_by_role("button", name="Retry…").click()
        await admin.get_by_role("button", name="Retry 20 jobs").click()
        await expect(admin.get_by_role("status").filter(has_text="20 done")).to_be_visible()
    assert len((await opilio.insights.jobs(status="pending")).items) == 20


async def test_a_webhook_and_its_first_event(admin: Page, opilio: Opilio, presses: Presses) -> None:
    async with Receiver() as receiver, listening(opilio):
        await admin.goto("/webhooks")
        with presses.at_most(2):
            await admin.get_by_label("URL", exact=True).fill(receiver.url())
            await admin.get_by_role("button", name="Create", exact=True).click()
            await admin.get_by_role("button", name="Send test event").click()
            await receiver.arrived(1)


async def test_the_price_history_of_what_moved_most(
    admin: Page, opilio: Opilio, bot: Bot, presses: Presses
) -> None:
    policy_id = await add_policy(opilio, "https://a.example/shoe")
    for price in (100, 80):
        await crawl(opilio, bot, policy_id, price=price, currency="EUR", title="Running shoe")
    await admin.goto("/")
    with presses.at_most(1):
        await admin.get_by_role("link", name="Running shoe").first.click()
        await expect(admin.locator('[data-chart="price"] svg path.line')).to_be_visible()
