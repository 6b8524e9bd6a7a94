"""Jobs in the browser: watch one go through its states, act on it, read what it found."""

from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import Page, expect

from opilio.contracts.management import TimelineRow
from opilio.insights.story import story
from opilio.runtime.bootstrap import Opilio
from tests.dashboard.conftest import Bot, add_policy


def lit(page: Page, state: str) -> object:
    return page.locator(f'.diagram .now[data-state="{state}"]')


async def test_watch_a_job_go_through_its_states(admin: Page, opilio: Opilio, bot: Bot) -> None:
    await add_policy(opilio, "https://a.example/1")
    await admin.goto("/policies")
    await admin.get_by_role("link", name="https://a.example/1").click()
    await admin.get_by_role("button", name="Run now").click()
    await expect(lit(admin, "pending")).to_be_visible()
    await expect(admin.locator("#live-marker")).to_have_text("Live")
    [job] = await bot.pull()
    await expect(lit(admin, "locked")).to_be_visible()
    await expect(admin.locator("h1")).to_contain_text("running")
    await expect(admin.get_by_role("button", name="Release lock")).to_be_visible()
    await expect(admin.get_by_text("Locked for")).to_be_visible()
    await bot.submit(job, success=True, price=9.5, currency="EUR", data={"id": 12345678901234567890})
    await expect(lit(admin, "done")).to_be_visible()
    await expect(admin.locator("#data")).to_contain_text("12345678901234567890")


async def test_reset_a_failed_job(admin: Page, opilio: Opilio, bot: Bot) -> None:
    job = await failed(opilio, bot, "https://a.example/1")
    await admin.goto(f"/jobs/{job['job_id']}")
    await expect(lit(admin, "failed")).to_be_visible()
    await admin.get_by_role("button", name="Retry now").click()
    await expect(lit(admin, "pending")).to_be_visible()
    await expect(admin.locator(".timeline-list li").last).to_contain_text("operator:admin")


async def failed(opilio: Opilio, bot: Bot, url: str) -> dict[str, object]:
    policy_id = await add_policy(opilio, url, max_retries=0)
    await opilio.operator_actions.run_now(policy_id, "test")
    [job] = await bot.pull()
    await bot.submit(job, success=False, error_code="TIMEOUT", error_msg="no answer")
    return job


async def test_bulk_reset_shows_what_can_and_what_cannot_be_reset(
    admin: Page, opilio: Opilio, bot: Bot
) -> None:
    for n in range(3):
        await failed(opilio, bot, f"https://a.example/{n}")
    policy_id = await add_policy(opilio, "https://a.example/good")
    await opilio.operator_actions.run_now(policy_id, "test")
    [job] = await bot.pull()
    await bot.submit(job, success=True, price=1, currency="EUR")
    await admin.goto("/jobs?host=a.example")
    await admin.get_by_role("button", name="All matching…").click()
    await admin.get_by_role("button", name="Retry…").click()
    await expect(admin.get_by_role("heading", name="Retry 3 jobs")).to_be_visible()
    await expect(admin.get_by_text("1 skipped:")).to_be_visible()
    await admin.get_by_role("button", name="Retry 3 jobs").click()
    await expect(admin.get_by_role("status").filter(has_text="3 done, 1 failed")).to_be_visible()
    await expect(admin.get_by_text("the job is done; reset is possible for")).to_be_visible()
    assert len((await opilio.insights.jobs(status="pending")).items) == 3


async def test_a_running_job_counts_down(admin: Page, opilio: Opilio, bot: Bot) -> None:
    policy_id = await add_policy(opilio, "https://a.example/1", timeout_minutes=2)
    await opilio.operator_actions.run_now(policy_id, "test")
    await bot.pull()
    await admin.goto("/jobs?status=locked")
    await expect(admin.locator("tbody [data-countdown]")).to_contain_text("1:")


async def test_a_late_result_is_shown_and_not_applied(admin: Page, opilio: Opilio, bot: Bot) -> None:
    policy_id = await add_policy(opilio, "https://a.example/1")
    job_id = await opilio.operator_actions.run_now(policy_id, "test")
    [job] = await bot.pull()
    await opilio.operator_actions.apply("expire", [job_id], "operator:test")
    await bot.submit(job, success=True, price=1, currency="EUR", title="too late")
    await admin.goto(f"/jobs/{job_id}")
    await expect(admin.get_by_text("Late results")).to_be_visible()
    await expect(admin.get_by_text("too late")).to_be_visible()


async def test_a_failed_job_shows_its_timeline_and_links_to_its_bot_and_host(
    admin: Page, opilio: Opilio, bot: Bot
) -> None:
    policy_id = await add_policy(opilio, "https://a.example/shoe", max_retries=0)
    await add_policy(opilio, "https://b.example/lamp")
    await opilio.operator_actions.run_now(policy_id, "test")
    [job] = await bot.pull()
    await bot.submit(job, success=False, error_code="TIMEOUT", error_msg="no answer within 30 s")
    await admin.goto("/jobs?q=SHOE&error=TIMEOUT")
    row = admin.locator("tbody tr")
    await expect(row).to_contain_text("no answer within 30 s")
    await row.locator("a.text-reset", has_text="bot-1").click()

    await expect(admin.locator("h1")).to_have_text("bot-1")
    await expect(admin.locator("#errors")).to_contain_text("TIMEOUT")
    await expect(admin.locator("[data-chart] svg path").first).to_be_attached()
    await expect(admin.locator("[data-chart] svg")).to_contain_text("average jobs at once")
    await expect(admin.locator("[data-chart] .line-locked")).to_have_count(1)
    await admin.locator("#jobs tbody a").click()
    await expect(admin.locator("#cause")).to_contain_text("no answer within 30 s")
    await expect(admin.locator("#story svg")).to_have_count(2)
    await expect(admin.locator("#story")).to_contain_text("running")
    await admin.get_by_role("link", name="a.example", exact=True).click()
    await expect(admin.locator("[data-chart] svg path").first).to_be_attached()
    await expect(admin.locator("[data-chart] svg")).to_contain_text("rate limited by the host")
    # The bar of this hour is one failed job; a click on it lists that job.
    boxes = [await path.bounding_box() for path in await admin.locator("[data-chart] path").all()]
    bar = next(box for box in boxes if box and box["height"] > 60 and box["width"] < 30)
    await admin.mouse.click(bar["x"] + bar["width"] / 2, bar["y"] + bar["height"] / 2)
    await admin.wait_for_url("**/jobs?host=a.example&status=failed&since=*")
    await expect(admin.locator("tbody tr")).to_have_count(1)
    # A bulk action on all that match touches what the filter shows, and nothing else.
    await admin.get_by_role("button", name="All matching…").click()
    await admin.get_by_role("button", name="Retry…").click()
    await expect(admin.locator("h1")).to_have_text("Retry 1 job")


def test_a_story_has_the_times_between_the_transitions() -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)

    def row(seconds: int, to: str) -> TimelineRow:
        return TimelineRow(from_=None, to=to, at=begin + timedelta(seconds=seconds), by="x", reason=to)

    rows = [row(0, "pending"), row(10, "locked"), row(15, "pending"), row(35, "locked"), row(40, "done")]
    found = story(rows, begin)
    assert [(s.kind, s.seconds) for s in found] == [
        ("waiting", 10),
        ("running", 5),
        ("retry", 20),
        ("running", 5),
    ]
    assert [round(s.offset, 3) for s in found] == [0, 0.25, 0.375, 0.875]
    assert sum(s.share for s in found) == pytest.approx(1)
    active = story(rows[:2], begin + timedelta(seconds=12))
    assert (active[-1].end, active[-1].seconds) == (None, 2)


async def test_a_job_that_waits_for_its_retry_is_retried_beside_the_reason(
    admin: Page, opilio: Opilio, bot: Bot
) -> None:
    policy_id = await add_policy(opilio, "https://a.example/shoe")
    await opilio.operator_actions.run_now(policy_id, "test")
    [job] = await bot.pull()
    await bot.submit(job, success=False, error_code="TIMEOUT", error_msg="no answer")
    assert await bot.pull() == []
    await admin.goto(f"/jobs/{job['job_id']}")
    await admin.locator("#why").get_by_role("button", name="Retry now").click()
    await expect(admin.get_by_text("The job is ready.")).to_be_visible()
    assert [again["job_id"] for again in await bot.pull()] == [job["job_id"]]


async def test_hours_without_work_are_not_busy(admin: Page, opilio: Opilio, bot: Bot) -> None:
    await failed(opilio, bot, "https://a.example/shoe")
    hours = (await (await admin.request.get("/bots/bot-1/series.json")).json())["items"]
    assert {hour["busy"] for hour in hours[:-2]} == {0}
    # Pages that never worked count in the error rate of their host.
    await admin.goto("/hosts")
    await expect(admin.locator("tbody tr")).to_contain_text("20%")
