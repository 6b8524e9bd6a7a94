"""The API reference within the dashboard: every operation in words, and calls as the operator who is logged in."""

import shlex

from playwright.async_api import Page, expect

from opilio.runtime.bootstrap import Opilio
from opilio.web.openapi import document
from opilio.web.operations import example, kind_of, limits_of, operations
from tests.dashboard.conftest import Bot, add_policy


async def test_an_operation_is_found_read_and_tried(admin: Page, opilio: Opilio) -> None:
    await admin.get_by_role("link", name="API", exact=True).click()
    await expect(admin.get_by_role("heading", name="API reference")).to_be_visible()
    await expect(admin.locator("a.operation")).to_have_count(len(operations()))
    await admin.get_by_label("Search operations").fill("post policies")
    await admin.get_by_role("button", name="Search", exact=True).click()
    await admin.get_by_role("link", name="Create a policy").click()
    await expect(admin.locator("h1")).to_have_text("Create a policy")
    await expect(admin.get_by_role("row", name="frequency_hours number Above")).to_contain_text("Default: 24")

    # The command follows what is filled in, and a shell reads it as it is meant.
    await admin.get_by_label("Body").fill('{"url": "https://a.example/it\'s"}')
    words = shlex.split(await admin.locator("#curl").inner_text())
    assert words[words.index("--data-binary") + 1] == '{"url": "https://a.example/it\'s"}'

    # A change that is tried there carries the token of the page.
    await admin.get_by_role("button", name="Send POST").click()
    await expect(admin.locator("#response-status")).to_have_text("201")
    await expect(admin.locator("#response-body")).to_contain_text('"url": "https://a.example/it\'s"')
    assert [policy.url for policy in (await opilio.insights.policies()).items] == ["https://a.example/it's"]

    await admin.get_by_label("Body").fill("{}")
    await admin.get_by_role("button", name="Send POST").click()
    await expect(admin.locator("#response-status")).to_have_text("400")
    await expect(admin.locator("#response-body")).to_contain_text("validation_error")


async def test_parameters_are_sent(admin: Page, opilio: Opilio) -> None:
    for n in range(2):
        await add_policy(opilio, f"https://a.example/{n}")
    await admin.goto("/reference/list_policies")
    await admin.get_by_label("limit").fill("1")
    await admin.get_by_role("button", name="Send GET").click()
    await expect(admin.locator("#response-body")).to_contain_text("https://a.example/1")
    await expect(admin.locator("#response-body")).not_to_contain_text("https://a.example/0")
    await expect(admin.locator("#curl")).to_contain_text("/api/v1/policies?limit=1")

    await admin.goto("/reference/get_host")
    await admin.get_by_label("host").fill("a.example")
    await admin.get_by_role("button", name="Send GET").click()
    await expect(admin.locator("#response-body")).to_contain_text('"cooling_periods": []')


async def test_a_bots_call_needs_its_token(admin: Page, opilio: Opilio, bot: Bot) -> None:
    await opilio.operator_actions.run_now(await add_policy(opilio, "https://a.example/1"), "test")
    await admin.goto("/reference/pull")
    await admin.get_by_label("Bot token").fill(bot.client.headers["authorization"].removeprefix("Bearer "))
    await admin.get_by_label("Body").fill('{"bot_id": "bot-1"}')
    await admin.get_by_role("button", name="Send POST").click()
    await expect(admin.locator("#response-body")).to_contain_text("https://a.example/1")


async def test_an_operation_that_is_none(admin: Page) -> None:
    answer = await admin.goto("/reference/nothing")
    assert answer is not None
    assert answer.status == 404
    await expect(admin.locator("main, .page-wrapper").first).to_contain_text("no operation nothing")


def test_every_operation_is_told_in_full() -> None:
    paths = document()["paths"]
    assert {(o.method.lower(), o.path) for o in operations().values()} == {
        (method, path) for path, methods in paths.items() for method in methods
    }
    for operation in operations().values():
        assert operation.needs in {"bot", "read", "write", "admin"}
        assert bool(operation.media_types) == (
            "requestBody" in paths[operation.path][operation.method.lower()]
        )
        words = shlex.split(operation.curl("http://server"))
        assert words[-1] == f"http://server{operation.path}"


def test_schemas_in_words() -> None:
    assert kind_of({"type": "array", "items": {"type": "string", "format": "uuid"}}) == "list of UUID"
    assert kind_of({"anyOf": [{"enum": ["http", "js"]}, {"type": "null"}]}) == '"http" or "js" or null'
    assert kind_of({"type": ["string", "null"]}) == "text or null"
    assert limits_of({"type": "integer", "minimum": 0, "maximum": 9, "default": 5}) == "0 to 9. Default: 5."
    assert example({"$ref": "#/components/schemas/PolicyInput"}) == {"url": "https://shop.example/product"}
