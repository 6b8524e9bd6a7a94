"""Keyword projects in the browser: create one, watch it come to its end, see what went wrong."""

import asyncio

from playwright.async_api import Page, expect

from opilio.contracts.projects import ProjectInput
from opilio.contracts.topology import RESULTS
from opilio.crawler.simulator import Faults
from opilio.runtime.bootstrap import Opilio, open_bus, wire
from opilio.runtime.roles import collector
from tests.collector.samples import analyzed, encoded, v2
from tests.dashboard.listening import fill_projects, finished, listening
from tests.delivery.receiver import Receiver


async def test_create_a_project_and_watch_it_to_its_end(admin: Page, opilio: Opilio) -> None:
    async with Receiver() as receiver:
        await admin.goto("/projects")
        await admin.get_by_role("link", name="New project").first.click()
        await admin.get_by_label("Brand", exact=True).fill("Trà sữa")
        await admin.get_by_label("Project ID").fill("tea")
        await admin.get_by_label("Brand keywords").fill("trà sữa\n\n trà đào ")
        await admin.get_by_label("Competitor keywords").fill("[Acme]\ncà phê sữa")
        await admin.get_by_label("Max posts per keyword").fill("20")
        await admin.get_by_label("Progress webhook URL").fill(receiver.url("/progress"))
        await admin.get_by_role("button", name="Create").click()
        await expect(admin.locator("h1")).to_contain_text("waiting")
        await expect(admin.locator("#tasks tbody tr")).to_have_count(3)
        await expect(admin.locator("#live-marker")).to_have_text("Live")
        async with listening(opilio):
            # Nobody touches the page: it hears of the end by itself.
            await expect(admin.locator("h1")).to_contain_text("done", timeout=60_000)
            await expect(admin.locator("#tasks .state-done")).to_have_count(6)
            await receiver.arrived(1)
        await admin.reload()
        await expect(admin.get_by_text("delivered").first).to_be_visible()
    await admin.get_by_role("link", name="Run again").click()
    await expect(admin.get_by_label("Competitor keywords")).to_have_value("[Acme]\ncà phê sữa")
    await admin.get_by_role("button", name="Create").click()
    await expect(admin.locator("h1")).to_contain_text("Trà sữa")
    assert len((await opilio.project_insights.projects()).items) == 2
    project = await opilio.project_insights.project("tea")
    assert project.competitor_keywords == {"Acme": ["cà phê sữa"]}
    assert project.created_by == "operator:admin"


async def test_an_error_is_shown_beside_its_field(admin: Page, opilio: Opilio) -> None:
    await admin.goto("/projects/new")
    await admin.get_by_label("Brand", exact=True).fill("Tea")
    await admin.get_by_role("button", name="Create").click()
    await expect(admin.locator("#h-brand_keywords")).to_contain_text("give at least one keyword")
    await expect(admin.get_by_label("Brand", exact=True)).to_have_value("Tea")
    await admin.get_by_label("Brand keywords").fill("tea")
    await admin.get_by_label("Project ID").fill("no spaces allowed")
    await admin.get_by_role("button", name="Create").click()
    await expect(admin.get_by_label("Project ID")).to_have_attribute("aria-invalid", "true")
    await admin.get_by_label("Project ID").fill("tea")
    await admin.get_by_label("Progress webhook URL").fill("https://user:secret@app.example/")
    await admin.get_by_role("button", name="Create").click()
    await expect(admin.locator("#h-webhook_url")).to_contain_text("credentials")
    await admin.get_by_label("Progress webhook URL").fill("")
    await admin.get_by_label("youtube").uncheck()
    await admin.get_by_label("tiktok").uncheck()
    await admin.get_by_role("button", name="Create").click()
    await expect(admin.locator("fieldset [role=alert]")).to_contain_text("at least one platform")
    assert (await opilio.project_insights.projects()).items == []


async def test_another_project_under_the_same_id_is_refused(admin: Page, opilio: Opilio) -> None:
    await opilio.projects.create(ProjectInput(project_id="tea", brand_keywords=["tea"]), by="test")
    await admin.goto("/projects/new")
    await admin.get_by_label("Project ID").fill("tea")
    await admin.get_by_label("Brand keywords").fill("coffee")
    await admin.get_by_role("button", name="Create").click()
    await expect(admin.locator("#h-project_id")).to_be_visible()


async def test_failures_and_limits_of_platforms_are_shown(admin: Page, opilio: Opilio) -> None:
    await fill_projects(opilio)
    await admin.goto("/projects/tea")
    await expect(admin.locator("#warnings")).to_contain_text("The platform has fewer posts than requested")
    limited = admin.locator("#warnings .warning", has_text="fewer posts than requested")
    tasks = (await opilio.project_insights.tasks("tea")).items
    few = {task.keyword for task in tasks if task.platform_limited}
    for keyword in few:
        await expect(limited.filter(has_text=keyword).first).to_be_visible()
    await expect(limited).to_have_count(sum(task.platform_limited for task in tasks))
    await expect(admin.locator("#tasks")).to_contain_text("the platform refuses this search")
    await admin.locator("#tasks").get_by_role("link", name="failed", exact=True).click()
    await expect(admin.locator("#tasks tbody .state-done")).to_have_count(0)
    await expect(admin.locator("#tasks tbody .state-failed").first).to_be_visible()


async def test_the_list_is_filtered_by_its_address_and_is_data(admin: Page, opilio: Opilio) -> None:
    for name in ("tea", "coffee"):
        await opilio.projects.create(
            ProjectInput(project_id=name, brand_name=name.title(), brand_keywords=["x"]), by="test"
        )
    await admin.goto("/projects")
    await admin.get_by_label("Search projects").fill("TEA")
    await admin.keyboard.press("Enter")
    await admin.wait_for_url("**/projects?q=TEA")
    await expect(admin.locator("tbody tr")).to_have_count(1)
    found = await (await admin.request.get("/projects.json?q=tea")).json()
    assert [item["project_id"] for item in found["items"]] == ["tea"]
    csv = await (await admin.request.get("/projects.csv?status=PENDING")).text()
    assert [line.split(",")[0] for line in csv.splitlines()] == ["project_id", "coffee", "tea"]
    tasks = await (await admin.request.get("/projects/tea.csv")).text()
    assert tasks.startswith("job_id,platform,")
    assert (await admin.request.get("/projects/nobody")).status == 404


async def test_the_list_shows_the_errors_of_each_phase(admin: Page, opilio: Opilio) -> None:
    await opilio.projects.create(
        ProjectInput(project_id="tea", brand_keywords=["tea"], platforms=["tiktok"]), by="test"
    )
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group, open_bus(opilio.settings, opilio.database) as bus:
        group.create_task(collector.serve(opilio, stop))
        result = v2("tea-brand-0", "tiktok", found=50, failed=3)
        await bus.publish(RESULTS, "crawler.tiktok.result", encoded(result))
        await bus.publish(RESULTS, "analytics.result", encoded(analyzed(1, 45, 2, "tea")))
        await finished(opilio, "tea")
        stop.set()
    await admin.goto("/projects")
    await expect(admin.locator("td[data-label=Errors] .badge")).to_have_text(["3 crawling", "2 analysis"])
    [found] = (await (await admin.request.get("/projects.json")).json())["items"]
    progress = found["progress"]
    assert (progress["crawl"]["items"]["errors"], progress["analyze"]["errors"]) == (3, 2)


async def test_a_retry_says_when_and_which(admin: Page, opilio: Opilio) -> None:
    await opilio.projects.create(
        ProjectInput(project_id="tea", brand_keywords=["tea"], platforms=["tiktok"]), by="test"
    )
    async with listening(opilio, faults=Faults(1, 0, 0, 0, 0, 0, 0)):
        await admin.goto("/projects/tea")
        await expect(admin.locator("#tasks")).to_contain_text("attempt 2 of 3", timeout=30_000)
        await expect(admin.locator("#tasks [data-countdown]")).to_be_visible()


async def test_the_overview_counts_projects_in_progress(admin: Page, opilio: Opilio) -> None:
    await opilio.projects.create(ProjectInput(project_id="tea", brand_keywords=["tea"]), by="test")
    await admin.goto("/")
    await expect(admin.locator("#tiles a", has_text="Open projects")).to_contain_text("1")
    async with listening(opilio):
        await finished(opilio, "tea")
        await expect(admin.locator("#tiles a", has_text="Open projects").locator(".h1")).to_have_text("0")


async def test_a_dry_run_shows_what_is_found(admin: Page, opilio: Opilio) -> None:
    await admin.goto("/projects")
    await admin.get_by_role("link", name="Dry run").click()
    await admin.get_by_label("Keywords").fill("trà sữa\n\n trà đào ")
    await admin.get_by_label("Posts per platform").fill("5")
    await admin.get_by_role("button", name="Start dry run").click()
    await expect(admin.locator("h1")).to_contain_text("trà sữa, trà đào")
    await expect(admin.locator("#dry-run .alert")).to_contain_text("Waiting for the crawlers")
    async with listening(opilio):
        # Nobody reloads the page.
        await expect(admin.locator("#dry-run .alert")).to_have_count(0, timeout=30_000)
    found = await opilio.project_insights.dry_run(admin.url.rsplit("/", 1)[-1])
    assert found.done
    assert found.items
    await expect(admin.locator("#dry-run table").last.locator("tbody tr")).to_have_count(len(found.items))
    await expect(admin.locator("#dry-run")).to_contain_text(found.items[0].author_name or found.items[0].id)
    assert (await opilio.project_insights.projects()).items == []


async def test_an_operator_closes_a_project_whose_analysis_stalled(admin: Page, opilio: Opilio) -> None:
    impatient = wire(opilio.settings.with_values(analyze_timeout_seconds=1), opilio.database)
    await opilio.projects.create(
        ProjectInput(project_id="tea", brand_keywords=["tea"], platforms=["tiktok"]), by="test"
    )
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group, open_bus(opilio.settings, opilio.database) as bus:
        group.create_task(collector.serve(impatient, stop))
        await admin.goto("/projects/tea")
        await expect(admin.locator("#live-marker")).to_have_text("Live")
        await bus.publish(RESULTS, "crawler.tiktok.result", encoded(v2("tea-brand-0", "tiktok", found=50)))
        # Nobody reloads the page: it first shows what is waited for, then that nothing comes.
        await expect(admin.locator("#waiting")).to_contain_text("The analysis stands still", timeout=30_000)
        stop.set()
    await expect(admin.locator("#waiting")).to_contain_text("50 posts")
    await admin.get_by_role("button", name="Close project").click()
    await admin.locator("dialog[open]").get_by_role("button", name="Close project").click()
    await expect(admin.get_by_role("alert")).to_contain_text("50 posts count as errors")
    state = await opilio.projects.state("tea")
    assert (state.status, state.analyze_total, state.analyze_errors) == ("DONE", 50, 50)
