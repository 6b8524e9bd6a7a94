"""Policies in the browser: create with preview, edit, filter, import, bulk by filter."""

import re
from pathlib import Path

from playwright.async_api import Page, expect

from opilio.runtime.bootstrap import Opilio
from tests.dashboard.conftest import Bot, add_policy


async def test_create_with_a_preview_of_the_priority(admin: Page) -> None:
    await admin.goto("/policies/new")
    await admin.get_by_label("URL", exact=True).fill("https://shop.example/shoe")
    await admin.get_by_text("More settings").click()
    await admin.get_by_label("Hot").check()
    await expect(admin.locator("#preview")).to_contain_text("Priority 70 in queue http")
    await expect(admin.locator("#preview")).to_contain_text("+20")
    await admin.get_by_role("button", name="Create", exact=True).click()
    await expect(admin.get_by_role("heading", name="https://shop.example/shoe")).to_be_visible()
    await expect(admin.locator("#why")).to_contain_text("no bot with the capability http was ever seen")


async def test_a_bad_form_comes_back_with_what_was_typed(admin: Page) -> None:
    await admin.goto("/policies/new")
    await admin.get_by_label("URL", exact=True).fill("https://user:secret@shop.example/")
    await admin.get_by_text("More settings").click()
    await admin.get_by_label("Labels").fill("team=shoes")
    await admin.get_by_role("button", name="Create", exact=True).click()
    await expect(admin.get_by_role("alert")).to_contain_text("user name or password")
    await expect(admin.get_by_label("Labels")).to_have_value("team=shoes")


async def test_edit(admin: Page, opilio: Opilio) -> None:
    policy_id = await add_policy(opilio, "https://shop.example/1", labels={"team": "a"})
    await admin.goto(f"/policies/{policy_id}/edit")
    await admin.get_by_label("Crawl every").fill("6")
    await admin.get_by_label("rule_set").evaluate("element => element.closest('details').open = true")
    await admin.get_by_label("rule_set").fill('{"price": ".price"}')
    await admin.get_by_role("button", name="Save").click()
    await expect(admin.get_by_role("alert")).to_contain_text("Saved.")
    policy = await opilio.insights.policy(policy_id)
    assert (policy.frequency_hours, policy.rule_set, policy.labels) == (6, {"price": ".price"}, {"team": "a"})


async def test_the_filter_is_the_address(admin: Page, opilio: Opilio) -> None:
    await add_policy(opilio, "https://a.example/shoe")
    await add_policy(opilio, "https://b.example/book")
    await admin.goto("/policies")
    await admin.get_by_label("Search names and URLs").fill("SHOE")
    await admin.keyboard.press("Enter")
    await admin.wait_for_url("**/policies?q=SHOE*")
    await expect(admin.locator("tbody tr")).to_have_count(1)
    await expect(admin.locator("tbody")).to_contain_text("https://a.example/shoe")


async def test_bulk_by_filter_says_how_many_and_touches_no_more(admin: Page, opilio: Opilio) -> None:
    for n in range(5):
        await add_policy(opilio, f"https://a.example/{n}")
    other = await add_policy(opilio, "https://b.example/1")
    await admin.goto("/policies?host=a.example")
    await admin.get_by_role("button", name="All matching…").click()
    await admin.get_by_role("button", name="Disable…").click()
    await expect(admin.get_by_role("heading", name="Disable 5 policies")).to_be_visible()
    await admin.get_by_role("button", name="Disable 5 policies").click()
    await expect(admin.get_by_role("status").filter(has_text="5 done")).to_be_visible()
    found = (await opilio.insights.policies(enabled=False)).items
    assert {policy.host for policy in found} == {"a.example"}
    assert (await opilio.insights.policy(other)).enabled


async def test_bulk_with_ticked_rows(admin: Page, opilio: Opilio) -> None:
    for n in range(3):
        await add_policy(opilio, f"https://a.example/{n}")
    await admin.goto("/policies")
    await admin.get_by_label("https://a.example/1").check()
    await admin.get_by_role("toolbar").get_by_role("button", name="Delete").click()
    await admin.get_by_role("button", name="Delete 1 policy").click()
    await expect(admin.get_by_role("status").filter(has_text="1 done")).to_be_visible()
    left = {policy.url for policy in (await opilio.insights.policies()).items}
    assert left == {"https://a.example/0", "https://a.example/2"}


async def test_bad_rows_are_previewed_fixed_and_imported(admin: Page, opilio: Opilio, tmp_path: Path) -> None:
    await add_policy(opilio, "https://a.example/1")
    file = tmp_path / "products.csv"
    file.write_text(
        "Link,Prio,Colour,labels\n"
        "https://a.example/1,70,red,team=shoes\n"
        "https://a.example/2,700,blue,team=shoes\n"
        "ftp://a.example/3,5,,\n"
    )
    await admin.goto("/policies/import")
    await admin.get_by_label("File (CSV").set_input_files(file)
    await expect(admin.get_by_label("Or paste rows")).to_have_value(re.compile("^Link,Prio"))
    await admin.get_by_role("button", name="Preview").click()
    progress = admin.locator("#import-progress")
    await expect(progress.get_by_role("status")).to_contain_text("to update: 1")
    await expect(progress.get_by_role("status")).to_contain_text("rejected: 2")
    await expect(progress.locator("tbody tr").first).to_contain_text("priority: must be at most 100")
    await expect(progress.get_by_label("Colour")).to_have_value("")
    assert [policy.priority for policy in (await opilio.insights.policies()).items] == [50]

    text = await admin.get_by_label("Or paste rows").input_value()
    await admin.get_by_label("Or paste rows").fill(text.replace("700", "80").replace("ftp:", "https:"))
    await progress.get_by_label("Prio").select_option("max_retries")
    await progress.get_by_role("button", name="Preview again").click()
    await expect(progress.get_by_role("status")).to_contain_text("rejected: 0")
    await expect(progress.get_by_label("Prio")).to_have_value("max_retries")
    await progress.get_by_role("button", name="Import 3 rows").click()
    await expect(progress.get_by_role("status")).to_contain_text("created: 2")
    await expect(progress.get_by_role("status")).to_contain_text("updated: 1")
    policies = {policy.url[-1]: policy for policy in (await opilio.insights.policies()).items}
    assert {key: (policy.max_retries, policy.labels) for key, policy in policies.items()} == {
        "1": (70, {"team": "shoes"}),
        "2": (80, {"team": "shoes"}),
        "3": (5, {}),
    }


async def test_a_file_without_a_known_column_asks_for_it(admin: Page, opilio: Opilio) -> None:
    await admin.goto("/policies/import")
    await admin.get_by_label("Or paste rows").fill("wo,wie\nhttps://a.example/1,7\n")
    await admin.get_by_role("button", name="Preview").click()
    progress = admin.locator("#import-progress")
    await expect(progress.get_by_role("alert")).to_contain_text("names no column url")
    await progress.get_by_label("wo").select_option("url")
    await progress.get_by_role("button", name="Preview again").click()
    await progress.get_by_role("button", name="Import 1 row").click()
    await expect(progress.get_by_role("status")).to_contain_text("created: 1")
    assert [policy.url for policy in (await opilio.insights.policies()).items] == ["https://a.example/1"]


async def test_the_page_of_a_policy_draws_its_prices(admin: Page, opilio: Opilio, bot: Bot) -> None:
    policy_id = await add_policy(opilio, "https://a.example/1")
    for price in (10, 12):
        await opilio.operator_actions.run_now(policy_id, "test")
        [job] = await bot.pull()
        await bot.submit(job, success=True, price=price, currency="EUR", title="Shoe", in_stock=True)
    await admin.goto(f"/policies/{policy_id}")
    await expect(admin.locator('[data-chart="price"]')).to_have_attribute("data-drawn", "yes")
    await expect(admin.locator('[data-chart="price"] svg')).to_be_visible()
    await expect(admin.locator(".price-now", has_text="€12.00")).to_be_visible()


async def test_a_saved_view_is_there_for_everybody(admin: Page, opilio: Opilio) -> None:
    await add_policy(opilio, "https://a.example/1")
    await admin.goto("/policies?host=a.example")
    await admin.get_by_role("button", name="Views").click()
    await admin.get_by_label("View name").fill("Shop A")
    await admin.get_by_role("button", name="Save").click()
    await expect(admin.get_by_role("alert")).to_contain_text("Saved as Shop A")
    assert [view["query"] for view in await opilio.views.all("policies")] == ["host=a.example"]


async def test_a_list_of_several_rows_renews_itself(admin: Page, opilio: Opilio) -> None:
    """A field of a form hides the form's own property of that name: called `id`, it broke the renewal."""
    ids = [await add_policy(opilio, f"https://a.example/{n}") for n in range(3)]
    await admin.goto("/policies")
    await expect(admin.locator("#announcer")).to_have_text("List updated")
    await opilio.policies.set_enabled(ids, enabled=False)
    await expect(admin.locator("tbody .badge.quiet", has_text="disabled")).to_have_count(3)


async def test_several_urls_at_once_with_a_unit(admin: Page, opilio: Opilio) -> None:
    await admin.goto("/policies/new")
    await expect(admin.locator("#preview")).to_contain_text("Enter a URL")
    await admin.get_by_label("URL", exact=True).fill(
        "https://a.example/1\nhttps://a.example/2\n\nhttps://a.example/1"
    )
    await admin.get_by_label("Crawl every").fill("30")
    await admin.get_by_label("Unit").select_option("minutes")
    await admin.get_by_role("button", name="Create", exact=True).click()
    await expect(admin.get_by_role("alert")).to_contain_text("2 policies created.")
    assert {policy.frequency_hours for policy in (await opilio.insights.policies()).items} == {0.5}


async def test_create_and_run_is_one_click(admin: Page, opilio: Opilio) -> None:
    await admin.goto("/policies/new")
    await admin.get_by_label("URL", exact=True).fill("https://a.example/1")
    await admin.get_by_role("button", name="Create and run").click()
    await expect(admin.get_by_role("heading", name="https://a.example/1")).to_be_visible()
    assert len((await opilio.insights.jobs(status="pending")).items) == 1
