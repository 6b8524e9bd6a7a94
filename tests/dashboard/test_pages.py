"""Every page has other formats, passes axe in both themes, and exists in both languages."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from babel.messages.pofile import read_po
from httpx2 import AsyncClient
from playwright.async_api import Browser, Page, expect

from opilio.runtime.bootstrap import Opilio
from opilio.web.dashboard import i18n as words
from tests.dashboard.catalogue import texts
from tests.dashboard.conftest import add_policy, log_in
from tests.dashboard.screenshots import addresses
from tests.dashboard.world import fill

WIDE = {"width": 1400, "height": 1000}
PHONE = {"width": 360, "height": 780}
MOST_BYTES = 200_000
CUT_OFF = "lists => lists.filter((list) => list.scrollWidth > list.clientWidth + 1).length"
THEME_RULES = {"runOnly": ["color-contrast", "link-in-text-block"]}  # what a theme can change
AXE = Path(__file__).parents[2] / "assets" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.mark.timeout(600)
async def test_every_page_in_both_themes_on_a_phone_and_as_data(
    browser: Browser, site: str, opilio: Opilio
) -> None:
    """One visit of each page for all: axe in light and dark, the width of a small phone, the weight, the data."""
    await fill(opilio, site)
    # Colours that are on their way to the other theme would be judged as they are.
    context = await browser.new_context(base_url=site, locale="en-GB", viewport=WIDE, reduced_motion="reduce")
    await context.add_cookies([{"name": "opilio_theme", "value": "light", "url": site}])
    page = await context.new_page()
    client, sizes = AsyncClient(base_url=site), dict[str, int]()
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    await page.goto("/login")
    faults += await violations(page)
    await log_in(page, opilio, "admin", "admin")
    for name, path in (await addresses(opilio)).items():
        await page.goto(path)
        await expect(page.locator("#live-marker")).to_have_attribute("data-state", "live")
        await expect(page.get_by_text("Loading…")).to_have_count(0)
        faults += [f"{name} in light: {fault}" for fault in await violations(page)]
        await page.keyboard.press("t")
        faults += [f"{name} in dark: {fault}" for fault in await violations(page, THEME_RULES)]
        await page.set_viewport_size(PHONE)
        if (width := await settled_width(page)) > PHONE["width"]:
            faults.append(f"{name} is {width} px wide on a phone")
        if cut := await page.locator(".table-responsive:has(.cards-on-phone)").evaluate_all(CUT_OFF):
            faults.append(f"{name} has {cut} lists that scroll sideways on a phone")
        await page.set_viewport_size(WIDE)
        faults += await data_faults(page, name, path)
        if (weight := await page_weight(client, sizes, await page.content())) > MOST_BYTES:
            faults.append(f"{name} has {weight} bytes, compressed")
    csv = await (await page.request.get("/policies.csv?host=toys.example&sort=url")).text()
    await context.close()
    await client.aclose()
    assert not faults, "\n".join(faults)
    lines = csv.splitlines()
    assert lines[0].startswith("id,url,host,enabled")
    assert len(lines) == 16
    assert all("toys.example" in line for line in lines[1:])


async def violations(page: Page, options: dict[str, Any] | None = None) -> list[str]:
    """Through the debugger's own door: the page's policy lets no injected script run, and shall not."""
    session = await page.context.new_cdp_session(page)
    if not (await session.send("Runtime.evaluate", {"expression": "'axe' in window"}))["result"]["value"]:
        await session.send("Runtime.evaluate", {"expression": AXE.read_text(encoding="utf-8")})
    # What passed is neither put together nor sent here: megabytes for each page.
    wanted = json.dumps({"resultTypes": ["violations"], **(options or {})})
    run = f"axe.run({wanted}).then((found) => found.violations)"
    ask = {"expression": run, "awaitPromise": True, "returnByValue": True}
    found: Any = (await session.send("Runtime.evaluate", ask))["result"]["value"]
    await session.detach()
    return [
        f"{fault['id']}: {node['html'][:150]} {node['failureSummary'][:200]}"
        for fault in found
        for node in fault["nodes"]
    ]


async def settled_width(page: Page) -> int:
    """Charts follow a new width in the next frames."""
    width = 0
    for _ in range(20):
        width = int(await page.evaluate("() => document.documentElement.scrollWidth"))
        if width <= PHONE["width"]:
            break
        await page.wait_for_timeout(50)
    return width


async def data_faults(page: Page, name: str, path: str) -> list[str]:
    if any(word in name for word in ("edit", "new", "import")):
        return []
    bare, _, query = path.partition("?")
    answer = await page.request.get(f"{'/overview' if bare == '/' else bare}.json?{query}")
    return [] if answer.ok and await answer.json() else [f"{name} as data: {answer.status}"]


async def page_weight(client: AsyncClient, sizes: dict[str, int], html: str) -> int:
    """What a first visit loads, compressed: the page, and its files as the server sends them; their sizes are asked for once."""
    files = set(re.findall(r'(?:src|href)="(/static/[^"#]+)', html))
    for file in files - sizes.keys():
        sizes[file] = await sent_bytes(client, file)
    return len(gzip.compress(html.encode())) + sum(sizes[file] for file in files)


async def sent_bytes(client: AsyncClient, path: str) -> int:
    async with client.stream("GET", path, headers={"accept-encoding": "gzip"}) as answer:
        assert answer.status_code == 200, path
        return sum([len(part) async for part in answer.aiter_raw()])


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


async def test_lists_are_walked_by_keys(admin: Page, opilio: Opilio) -> None:
    for n in range(3):
        await add_policy(opilio, f"https://a.example/{n}")
    await admin.goto("/policies")
    for _ in range(5):  # skip links lead past the menu and the filters
        await admin.keyboard.press("Tab")
        if await admin.locator(":focus").get_attribute("href") == "#rows":
            await admin.keyboard.press("Enter")
        if await admin.locator("input[data-row]:focus").count():
            break
    await expect(admin.locator("tbody tr").first.locator("input[data-row]")).to_be_focused()
    await admin.locator("h1").click()
    await admin.keyboard.press("j")
    await expect(admin.locator("tbody tr.current a:focus")).to_have_text("https://a.example/2")
    await admin.keyboard.press("j")
    await admin.keyboard.press("x")
    await expect(admin.locator("tbody tr").nth(1).locator("input")).to_be_checked()
    await expect(admin.get_by_role("toolbar")).to_contain_text("1 selected")
    await admin.keyboard.press("k")
    await admin.keyboard.press("Enter")
    await expect(admin.locator("h1")).to_have_text("https://a.example/2")
    await admin.emulate_media(reduced_motion="reduce")
    moving = "() => getComputedStyle(document.querySelector('.btn')).transitionDuration"
    assert await admin.evaluate(moving) == "0s"


async def test_the_palette_finds_a_policy_by_the_keyboard(admin: Page, site: str, opilio: Opilio) -> None:
    await fill(opilio, site)
    await admin.goto("/")
    await admin.keyboard.press("Control+k")
    await admin.keyboard.type("toys.example")
    await expect(admin.locator("#palette-results a").first).to_contain_text("toys.example")
    await admin.keyboard.press("Enter")
    await expect(admin.locator("h1")).to_contain_text("toys.example")
