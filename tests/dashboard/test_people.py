"""Tokens, keys, operators, hosts: what is shown once, and who may do what."""

from httpx2 import AsyncClient
from playwright.async_api import Page, expect

from opilio.runtime.bootstrap import Opilio
from tests.dashboard.conftest import add_policy, log_in


async def test_a_bot_token_is_shown_once_and_works(admin: Page, opilio: Opilio, site: str) -> None:
    await admin.goto("/bots")
    await admin.get_by_label("Bot name").fill("crawler-9")
    await admin.get_by_role("button", name="Create token").click()
    token = await admin.locator("#token").inner_text()
    async with AsyncClient(base_url=site, headers={"authorization": f"Bearer {token}"}) as http:
        answer = await http.post("/api/crawl/pull/", json={"bot_id": "crawler-9"})
        assert answer.status_code == 200
        await admin.goto("/bots?tokens=crawler-9")
        await expect(admin.locator("#tokens")).to_be_visible()
        assert token not in await admin.content()
        await admin.get_by_role("button", name="Revoke").click()
        await admin.locator("dialog[open]").get_by_role("button", name="Revoke").click()
        await expect(admin.get_by_role("alert")).to_contain_text("1 token revoked.")
        assert (await http.post("/api/crawl/pull/", json={"bot_id": "crawler-9"})).status_code == 401


async def test_limits_of_a_host(admin: Page, opilio: Opilio) -> None:
    await add_policy(opilio, "https://a.example/1")
    await admin.goto("/hosts?edit=a.example")
    await admin.get_by_label("Max concurrent jobs").fill("3")
    await admin.get_by_role("button", name="Save").click()
    await expect(admin.locator("tbody")).to_contain_text("3 at once")
    assert (await opilio.insights.host("a.example")).max_concurrent == 3


async def test_invite_a_viewer_who_may_look_and_not_touch(admin: Page, opilio: Opilio) -> None:
    await admin.goto("/settings")
    await admin.locator("#o-name").fill("linh")
    await admin.get_by_role("button", name="Create login link").click()
    await expect(admin.locator("#secret")).to_contain_text("/login/opl_")
    policy_id = await add_policy(opilio, "https://a.example/1")
    await log_in(admin, opilio, "linh", "viewer")
    await admin.goto(f"/policies/{policy_id}")
    await expect(admin.get_by_text("your role is viewer")).to_be_visible()
    await expect(admin.get_by_role("button", name="Run now")).to_have_count(0)
    await expect(admin.get_by_role("link", name="Settings")).to_have_count(0)


async def test_the_last_admin_cannot_shut_themselves_out(admin: Page) -> None:
    await admin.goto("/settings")
    await admin.get_by_role("button", name="Disable").click()
    await admin.locator("dialog[open]").get_by_role("button", name="Disable").click()
    await expect(admin.get_by_role("alert")).to_contain_text("only admin")


async def test_the_audit_log_says_who_did_what(admin: Page, opilio: Opilio) -> None:
    policy_id = await add_policy(opilio, "https://a.example/1")
    await admin.goto(f"/policies/{policy_id}")
    await admin.get_by_role("button", name="Disable").click()
    await admin.goto("/settings/audit")
    await expect(admin.locator("tbody tr").first).to_contain_text("policy.change")
    await expect(admin.locator("tbody tr").first).to_contain_text("admin operator")
