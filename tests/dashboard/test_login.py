from playwright.async_api import Page, expect


async def test_it_works(admin: Page) -> None:
    await expect(admin.get_by_role("heading", name="Overview")).to_be_visible()
    await expect(admin.locator("#live-marker")).to_have_text("Live")
