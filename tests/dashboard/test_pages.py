"""Every page has twins, looks well to axe in both themes, and speaks both languages."""

import re
from pathlib import Path
from typing import Any

import pytest
from babel.messages.pofile import read_po
from playwright.async_api import Browser, Page, expect

from opilio.runtime.bootstrap import Opilio
from opilio.web.dashboard import i18n as words
from tests.dashboard.catalogue import texts
from tests.dashboard.conftest import log_in
from tests.dashboard.screenshots import addresses
from tests.dashboard.world import fill

AXE = Path(__file__).parents[2] / "assets" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.mark.timeout(300)
async def test_axe_finds_nothing_serious(browser: Browser, site: str, opilio: Opilio) -> None:
    await fill(opilio, site)
    context = await browser.new_context(
        base_url=site, locale="en-GB", viewport={"width": 1400, "height": 1000}
    )
    page = await context.new_page()
    await page.goto("/login")
    found = {"login": await serious(page)}
    await log_in(page, opilio, "admin", "admin")
    for theme in ("light", "dark"):
        await context.add_cookies([{"name": "opilio_theme", "value": theme, "url": site}])
        for name, path in (await addresses(opilio)).items():
            await page.goto(path)
            await expect(page.locator("#live-marker")).to_have_attribute("data-state", "live")
            await expect(page.get_by_text("Loading…")).to_have_count(0)
            found[f"{name} in {theme}"] = await serious(page)
    await context.close()
    wrong = {name: faults for name, faults in found.items() if faults}
    assert not wrong, "\n".join(f"{name}: {fault}" for name, faults in wrong.items() for fault in faults)


async def serious(page: Page) -> list[str]:
    """Through the debugger's own door: the page's policy lets no injected script run, and shall not."""
    session = await page.context.new_cdp_session(page)
    await session.send("Runtime.evaluate", {"expression": AXE.read_text(encoding="utf-8")})
    ask = {"expression": "axe.run()", "awaitPromise": True, "returnByValue": True}
    found: Any = (await session.send("Runtime.evaluate", ask))["result"]["value"]
    await session.detach()
    return [
        f"{fault['id']}: {node['html'][:150]} {node['failureSummary'][:200]}"
        for fault in found["violations"]
        if fault["impact"] in ("serious", "critical")
        for node in fault["nodes"]
    ]


async def test_every_page_is_data_too(admin: Page, site: str, opilio: Opilio) -> None:
    await fill(opilio, site)
    for name, path in (await addresses(opilio)).items():
        if any(word in name for word in ("edit", "new", "import")):
            continue
        bare, _, query = path.partition("?")
        answer = await admin.request.get(f"{'/overview' if bare == '/' else bare}.json?{query}")
        assert answer.ok, (name, await answer.text())
        assert await answer.json(), name
    csv = await (await admin.request.get("/policies.csv?host=toys.example&sort=url")).text()
    lines = csv.splitlines()
    assert lines[0].startswith("id,url,host,enabled")
    assert len(lines) == 16
    assert all("toys.example" in line for line in lines[1:])


async def test_vietnamese(admin: Page, site: str) -> None:
    await admin.context.add_cookies([{"name": "opilio_lang", "value": "vi", "url": site}])
    await admin.goto("/")
    await expect(admin.get_by_role("heading", name="Tổng quan")).to_be_visible()
    await expect(admin.locator("html")).to_have_attribute("lang", "vi")


def test_every_text_is_translated_with_its_values() -> None:
    source = words.files("opilio.web.dashboard") / "locale" / "vi.po"
    with source.open("rb") as file:
        known = read_po(file, locale="vi")
    wanted = {
        message.id if isinstance(message.id, str) else message.id[0]: message
        for message in texts()
        if message.id
    }
    for text, message in wanted.items():
        entry = known.get(text)
        assert entry is not None, f"not in vi.po: {text!r}; run `make translations`"
        translated = entry.string if isinstance(entry.string, str) else entry.string[0]
        assert translated, f"not translated: {text!r}"
        plural = text if isinstance(message.id, str) else message.id[1]
        assert placeholders(translated) == placeholders(plural), text


def test_no_field_hides_a_property_of_its_form() -> None:
    """`form.id` is a field of that name, if there is one; what renews a page looks elements up by their id."""
    fields = re.compile(r'name="id"|fields=\{[^}]*"id":')
    templates = Path(words.__file__).parents[1] / "templates"
    assert [file.name for file in templates.rglob("*.html") if fields.search(file.read_text("utf-8"))] == []


def placeholders(text: str) -> set[str]:
    return set(re.findall(r"%\(\w+\)s", text))


async def test_a_phone_needs_no_sideways_scrolling(admin: Page, site: str, opilio: Opilio) -> None:
    await fill(opilio, site)
    await admin.set_viewport_size({"width": 390, "height": 844})
    widths: dict[str, int] = {}
    for name, path in (await addresses(opilio)).items():
        await admin.goto(path)
        await expect(admin.locator("#live-marker")).to_have_attribute("data-state", "live")
        widths[name] = await admin.evaluate("() => document.documentElement.scrollWidth")
    assert {name: width for name, width in widths.items() if width > 390} == {}


async def test_the_palette_finds_a_policy_by_the_keyboard(admin: Page, site: str, opilio: Opilio) -> None:
    await fill(opilio, site)
    await admin.goto("/")
    await admin.keyboard.press("Control+k")
    await admin.keyboard.type("toys.example")
    await expect(admin.locator("#palette-results a").first).to_contain_text("toys.example")
    await admin.keyboard.press("Enter")
    await expect(admin.locator("h1")).to_contain_text("toys.example")
