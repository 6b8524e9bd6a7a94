"""Texts of other parts in the viewer's language; a page's content as a command."""

import shlex
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.async_api import Page, expect

from opilio.crawl.politeness import Limits
from opilio.errors import Conflict, Invalid, NotFound
from opilio.insights.why import Facts, explain
from opilio.runtime.bootstrap import Opilio
from opilio.web.dashboard.i18n import Locale
from tests.dashboard.conftest import add_policy

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SOON = NOW + timedelta(minutes=5)
WAITING: dict[str, Any] = {
    "enabled": True, "next_run_at": NOW, "host": "a.example", "limits": Limits(None, None), "host_next_at": NOW, "cooling_until": NOW,
    "cooling_reason": None, "held": 0, "queue": "http", "bot_seen_at": NOW, "active": True, "place": "free", "run_at": NOW,
    "retry_count": 1, "max_retries": 3, "locked_by": None, "locked_until": None,
    "bot_below_cap": True, "bot_cap": 1000,
}  # fmt: skip


@pytest.mark.parametrize(
    "more",
    [
        {"place": "locked", "locked_by": "bot-1", "locked_until": SOON},
        {"enabled": False},
        {"run_at": SOON},
        {"active": False, "next_run_at": SOON},
        {"cooling_until": SOON},
        {"cooling_until": SOON, "cooling_reason": "answered 429"},
        {"limits": Limits(None, 2.0), "host_next_at": SOON},
        {"limits": Limits(2, None), "held": 2},
        {"bot_below_cap": False},
        {"bot_seen_at": None},
        {"bot_seen_at": NOW - timedelta(minutes=12)},
    ],
)
def test_every_reason_is_translated_to_vietnamese(more: dict[str, Any]) -> None:
    for reason in explain(Facts(**(WAITING | more)), NOW).reasons:
        assert Locale("en").reason(reason) == reason.message
        assert Locale("vi").reason(reason) != reason.message


def test_values_stay_and_so_does_the_name_of_a_field() -> None:
    vi = Locale("vi")
    assert vi.refusal(NotFound("page not found: %(path)s", path="/x")) == "không tìm thấy trang: /x"
    assert vi.refusal(Invalid("id", "must be a UUID")) == "id: phải là UUID"
    assert vi.refusal(Conflict("100% new: never heard of it")) == "100% new: never heard of it"


async def test_a_refusal_in_vietnamese(admin: Page, site: str) -> None:
    await admin.context.add_cookies([{"name": "opilio_lang", "value": "vi", "url": site}])
    await admin.goto("/projects/new")
    await admin.get_by_label("Thương hiệu", exact=True).fill("x")
    await admin.get_by_role("button", name="Tạo").click()
    await expect(admin.locator("#h-brand_keywords")).to_contain_text("ít nhất một từ khóa")


async def test_reasons_of_rejected_rows_in_vietnamese(admin: Page, site: str) -> None:
    await admin.context.add_cookies([{"name": "opilio_lang", "value": "vi", "url": site}])
    await admin.goto("/policies/import")
    await admin.locator("#text").fill(
        "url,priority,hot\nhttps://a.example/1,700,\nhttps://a.example/2,many,\nhttps://a.example/3,5\nftp://a.example/4,5,\n"
    )
    await admin.locator("#import-form button[type=submit]").click()
    rows = admin.locator("#import-progress tbody tr")
    await expect(rows).to_have_count(4)
    for number, text in enumerate(("priority: phải", "'many' không phải là số nguyên", "có 2 ô", "url: ")):
        await expect(rows.nth(number)).to_contain_text(text)
    assert "must be" not in await rows.nth(3).inner_text()


async def test_a_list_is_a_command_too(admin: Page, opilio: Opilio, site: str) -> None:
    await add_policy(opilio, "https://a.example/1")
    await admin.goto("/policies?enabled=no&host=a.example&q='; rm -rf / %23")
    cli = shlex.split(await admin.locator("#as-cli").text_content() or "")
    assert cli == [
        "opilio",
        "policies",
        "list",
        "--disabled",
        "--host",
        "a.example",
        "--search",
        "'; rm -rf / #",
    ]
    curl = shlex.split(await admin.locator("#as-curl").text_content() or "")
    assert curl[0] == "curl"
    assert curl[-1].startswith(f"{site}/api/v1/policies?enabled=false&host=a.example&q=%27%3B")
    answer = await admin.request.get(curl[-1])
    assert (await answer.json())["success"] is True
    await admin.goto("/policies?failing=yes")  # the API has no such filter
    await expect(admin.locator("#as-cli")).to_have_count(0)
