"""Writes every page in both themes to screenshots/: `make screenshots`, then look at them."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from opilio.runtime.bootstrap import Opilio
from tests.dashboard.conftest import log_in
from tests.dashboard.world import fill

FOLDER = Path(__file__).parents[2] / "screenshots"
IMAGES = Path(__file__).parents[2] / "docs" / "images"
# The pictures of README and docs, each as high as what it shows.
BEST = {"overview": 860, "prices": 760, "policy": 900, "alerts": 620, "job-failed": 760, "analytics": 900}


async def addresses(opilio: Opilio) -> dict[str, str]:
    done = (await opilio.insights.jobs(status="done", limit=1)).items[0]
    locked = (await opilio.insights.jobs(status="locked", limit=1)).items[0]
    failed = (await opilio.insights.jobs(status="failed", limit=1)).items[0]
    pending = (await opilio.insights.jobs(status="pending", limit=1)).items[0]
    return {
        "overview": "/",
        "prices": "/prices",
        "alerts": "/alerts",
        "policies": "/policies",
        "policies-failing": "/policies?failing=yes&sort=failures",
        "policy": f"/policies/{done.policy_id}",
        "policy-edit": f"/policies/{done.policy_id}/edit",
        "policy-new": "/policies/new?url=https://shoes.example/new",
        "import": "/policies/import",
        "jobs": "/jobs",
        "jobs-running": "/jobs?status=locked",
        "job-done": f"/jobs/{done.id}",
        "job-running": f"/jobs/{locked.id}",
        "job-waiting": f"/jobs/{pending.id}",
        "results": "/results",
        "bots": "/bots?tokens=hanoi-1",
        "bot": "/bots/hanoi-1",
        "hosts": "/hosts?edit=books.example",
        "adaptive": "/adaptive",
        "host": "/hosts/toys.example",
        "job-failed": f"/jobs/{failed.id}",
        "projects": "/projects",
        "project": "/projects/tea",
        "project-waiting": "/projects/shoes-2026",
        "project-new": "/projects/new",
        "analytics-projects": "/analytics",
        "analytics": "/analytics/tea",
        "analytics-negative": "/analytics/tea?sentiment=negative&bucket=week",
        "webhooks": "/webhooks",
        "webhook": f"/webhooks/{(await opilio.webhooks.page()).items[0].id}",
        "events": "/events",
        "dlq": "/dlq",
        "dead-letter": f"/dlq/{(await opilio.dead_letters.page()).items[0].id}",
        "settings": "/settings",
        "audit": "/settings/audit",
        "account": "/account",
        "compare": "/prices/compare?"
        + "&".join(f"policy={job.policy_id}" for job in (done, failed, pending)),
        "reference": "/reference",
        "reference-operation": "/reference/create_policy",
    }


@pytest.mark.timeout(600)
async def test_pictures_of_the_docs(browser: Browser, site: str, opilio: Opilio) -> None:
    await fill(opilio, site)
    context = await browser.new_context(
        base_url=site, locale="en-GB", viewport={"width": 1280, "height": 900}
    )
    await context.add_cookies([{"name": "opilio_theme", "value": "light", "url": site}])
    page = await context.new_page()
    await log_in(page, opilio, "admin", "admin")
    pages = await addresses(opilio)
    for name, height in BEST.items():
        await page.set_viewport_size({"width": 1280, "height": height})
        await shoot(page, pages[name], IMAGES / f"{name.removesuffix('-failed')}.png", full_page=False)
    await context.close()


@pytest.mark.timeout(600)
async def test_every_page(browser: Browser, site: str, opilio: Opilio) -> None:
    FOLDER.mkdir(exist_ok=True)
    await fill(opilio, site)
    context = await browser.new_context(
        base_url=site, locale="en-GB", viewport={"width": 1400, "height": 900}
    )
    page = await context.new_page()
    await page.goto("/login")
    await page.screenshot(path=FOLDER / "login-light.png")
    await log_in(page, opilio, "admin", "admin")
    for theme in ("light", "dark"):
        await context.add_cookies([{"name": "opilio_theme", "value": theme, "url": site}])
        for name, path in (await addresses(opilio)).items():
            await shoot(page, path, FOLDER / f"{name}-{theme}.png")
    await context.add_cookies([{"name": "opilio_lang", "value": "vi", "url": site}])
    await shoot(page, "/", FOLDER / "overview-vi-dark.png")
    await shoot(page, "/analytics/tea", FOLDER / "analytics-vi-dark.png")
    await page.set_viewport_size({"width": 390, "height": 844})
    for name in (
        "overview",
        "prices",
        "policies",
        "policy",
        "job-failed",
        "alerts",
        "bot",
        "project",
        "analytics",
    ):
        await shoot(page, (await addresses(opilio))[name], FOLDER / f"{name}-phone.png")
    await context.close()


async def shoot(page: Page, path: str, file: Path, *, full_page: bool = True) -> None:
    await page.goto(path)
    await expect(page.locator("#live-marker")).to_have_attribute("data-state", "live")
    for chart in await page.locator("[data-chart]").all():
        await expect(chart).to_have_attribute("data-drawn", "yes")
    await expect(page.locator("[data-renew]", has_text="Loading…")).to_have_count(0)
    await page.screenshot(path=file, full_page=full_page)
