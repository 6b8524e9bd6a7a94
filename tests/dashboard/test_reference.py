"""The API reference within the dashboard: same navigation, same theme, calls as the operator who is logged in."""

import re

from playwright.async_api import Page, expect

from opilio.runtime.bootstrap import Opilio


async def test_the_api_reference_is_a_page_of_the_dashboard(admin: Page, opilio: Opilio) -> None:
    await admin.get_by_role("link", name="API", exact=True).click()
    await expect(admin.get_by_role("heading", name="API reference")).to_be_visible()
    await expect(admin.get_by_role("link", name="Policies", exact=True)).to_be_visible()
    operation = admin.locator(".opblock", has=admin.get_by_text("/api/v1/policies", exact=True)).filter(
        has_text="POST"
    )
    await expect(operation).to_be_visible()
    await admin.keyboard.press("t")
    await expect(admin.locator("html")).to_have_class(re.compile("dark-mode"))

    # A change that is tried there carries the token of the page.
    await operation.get_by_role("button").first.click()
    await operation.get_by_role("button", name="Try it out").click()
    await operation.locator("textarea").fill('{"url": "https://a.example/tried"}')
    await operation.get_by_role("button", name="Execute").click()
    await expect(operation.locator(".live-responses-table tbody .response-col_status").first).to_contain_text(
        "201"
    )
    assert [policy.url for policy in (await opilio.insights.policies()).items] == ["https://a.example/tried"]

    await admin.set_viewport_size({"width": 390, "height": 800})
    await expect(admin.locator("#live-marker")).to_be_visible()
