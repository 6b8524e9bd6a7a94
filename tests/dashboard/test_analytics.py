"""What the posts of a project say, in the browser: figures, filters as addresses, links that are only links."""

import asyncio
from collections import Counter
from datetime import UTC, datetime

import pytest
from playwright.async_api import Page, expect

from opilio.contracts.analytics import Voice
from opilio.contracts.projects import ProjectInput
from opilio.insights.analytics import VoicePoint
from opilio.runtime.bootstrap import Opilio
from opilio.web.dashboard.analytics import Actors, voice_lines, voices
from opilio.web.dashboard.render import web_link
from opilio.web.dashboard.single_flight import SingleFlight
from tests.dashboard.listening import EvilPlatform, fill_projects, finished, listening
from tests.dashboard.test_safety import EVIL, hacked


async def test_from_the_list_to_the_figures(admin: Page, opilio: Opilio) -> None:
    await fill_projects(opilio)
    await admin.goto("/analytics")
    await admin.get_by_role("link", name="Trà sữa").click()
    await expect(admin.locator('[data-chart="sentiment"] svg')).to_be_visible()
    await expect(admin.locator('[data-chart="voices"] svg path.line')).to_have_count(3)
    await expect(admin.locator("#figures")).to_contain_text("Share of voice")
    await expect(admin.locator("#voice tbody tr")).to_have_count(3)
    await expect(admin.locator("#voice")).to_contain_text("Phúc An")
    await expect(admin.locator("#alerts")).to_contain_text("risk: ")
    # An alert says what the post says, and leads to it.
    await expect(admin.locator("#alerts q").first).not_to_be_empty()
    link = admin.locator("#alerts").get_by_role("link", name="Open post").first
    assert (await link.get_attribute("href") or "").startswith("https://")
    await expect(admin.locator(".post")).to_have_count(15)
    await admin.get_by_role("link", name="Older").click()
    await expect(admin.locator(".post").first).to_be_visible()
    await expect(admin.get_by_role("link", name="Newest", exact=True)).to_be_visible()

    # A post is found from everywhere by its words.
    texts = [post.content_text for post in (await opilio.analytics.posts("tea")).items]
    words = next(text for text in texts if text)[:25].strip()
    await admin.goto("/")
    await admin.keyboard.press("Control+k")
    await admin.keyboard.type(words)
    await admin.locator('#palette-results a[href^="/analytics/tea?q="]', has_text=words).first.click()
    await expect(admin.locator(".post").first).to_contain_text(words)


async def test_a_filter_is_an_address_and_means_the_same_everywhere(admin: Page, opilio: Opilio) -> None:
    await fill_projects(opilio)
    await admin.goto("/analytics/tea")
    await admin.locator("summary", has_text="Filters").click()
    await admin.get_by_label("All sentiments").select_option("negative")
    await admin.wait_for_url("**/analytics/tea?*sentiment=negative*")
    shown = await opilio.analytics.summary("tea")
    negative = shown.sentiments["negative"]
    await expect(admin.locator("#figures .h1").first).to_have_text(str(negative))
    await expect(admin.locator(".post .badge.good")).to_have_count(0)
    await admin.locator("#words a").first.click()
    await expect(admin.get_by_label("Keyword")).not_to_have_value("")
    await expect(admin.get_by_label("All sentiments")).to_have_value("negative")


async def test_the_report_is_printed_without_controls(admin: Page, opilio: Opilio) -> None:
    await fill_projects(opilio)
    await admin.goto("/analytics/tea")
    await expect(admin.locator("#voice")).to_be_visible()
    await admin.evaluate("window.print = () => { window.printed = true; }")
    await admin.get_by_role("button", name="Print").click()
    assert await admin.evaluate("window.printed") is True
    await admin.emulate_media(media="print")
    for hidden in (
        admin.locator("aside"),
        admin.locator("form.filters"),
        admin.get_by_role("button", name="Print"),
    ):
        await expect(hidden).to_be_hidden()
    await expect(admin.locator("h1")).to_contain_text("Trà sữa")
    for shown in ('[data-chart="sentiment"] svg', "#voice tbody tr", ".post"):
        await expect(admin.locator(shown).first).to_be_visible()


async def test_other_formats_contain_what_the_page_shows(admin: Page, opilio: Opilio) -> None:
    await fill_projects(opilio)
    told = await (await admin.request.get("/analytics/tea.json?sentiment=negative")).json()
    assert {post["sentiment"] for post in told["posts"]} == {"negative"}
    assert told["summary"]["sentiments"].keys() == {"negative"}
    csv = await (await admin.request.get("/analytics/tea.csv?platform=youtube&order=time")).text()
    assert csv.splitlines()[0].startswith("id,platform,")
    trends = await (await admin.request.get("/analytics/tea/trends.json?bucket=month")).json()
    assert sum(row["posts"] for row in trends["items"]) == (await opilio.analytics.summary("tea")).analysed
    assert (await admin.request.get("/analytics/tea/figures.csv")).ok
    whole = await (await admin.request.get("/analytics/tea/voices.json?bucket=month")).json()
    share, lines = Counter[str](), Counter[str]()
    for voice in await opilio.analytics.share_of_voice("tea"):
        share[voice.role] += voice.posts
    for row in whole["items"]:
        lines[row["role"]] += row["posts"]
    assert lines == share
    both = [
        await (await admin.request.get(f"/analytics/tea/voices.json?platform={name}&bucket=hour")).json()
        for name in ("tiktok", "youtube")
    ]
    assert sum(row["posts"] for part in both for row in part["items"]) == sum(share.values())
    days = await (await admin.request.get("/analytics/tea.json?since=2026-01-10&until=2026-01-10")).json()
    assert {post["at"][:10] for post in days["posts"]} <= {"2026-01-10"}
    for wrong in ("since=yesterday", "sentiment=sad", "risk=none"):
        assert (await admin.request.get(f"/analytics/tea.json?{wrong}")).status == 400


async def test_errors_by_code_lead_to_single_ones(admin: Page, opilio: Opilio) -> None:
    await fill_projects(opilio)
    await admin.goto("/analytics/tea")
    code = await admin.locator("#errors tbody a").first.inner_text()
    await admin.locator("#errors tbody a").first.click()
    await expect(admin.locator("#errors .list-group-item").first).to_contain_text(code)


async def test_failed_posts_are_crawled_again_at_the_press_of_a_button(admin: Page, opilio: Opilio) -> None:
    await fill_projects(opilio)
    missing = sum(row.posts for row in await opilio.analytics.errors("tea", retryable=True))
    before, state = await opilio.analytics.summary("tea"), await opilio.projects.state("tea")
    assert missing > 0
    await admin.goto("/analytics/tea")
    await admin.locator("#errors").get_by_role("button", name="Crawl again").click()
    await admin.locator("dialog[open]").get_by_role("button", name="Crawl again").click()
    await expect(admin.get_by_role("alert")).to_contain_text(f"{missing} post")
    async with listening(opilio), asyncio.timeout(30):
        while await opilio.analytics.errors("tea", retryable=True):
            await asyncio.sleep(0.1)
    after = await opilio.analytics.summary("tea")
    assert (after.posts, after.errors) == (before.posts, before.errors - missing)
    voices_before, voices_after = (sum(v.posts for v in found.share_of_voice) for found in (before, after))
    assert voices_after - voices_before == missing  # each under the keyword that had found it
    assert all(voice.role != "other" for voice in after.share_of_voice)
    assert await opilio.projects.state("tea") == state  # the counters of a project that is done are final
    await admin.reload()
    await expect(admin.locator("#errors").get_by_role("button", name="Crawl again")).to_have_count(0)


async def test_texts_of_strangers_stay_texts(admin: Page, opilio: Opilio) -> None:
    await opilio.projects.create(
        ProjectInput(
            project_id="evil",
            brand_name=EVIL,
            brand_keywords=[EVIL],
            competitor_keywords={EVIL: [f"{EVIL} too"]},
            limit_per_keyword=3,
        ),
        by=EVIL,
    )
    async with listening(opilio, platforms=(EvilPlatform("tiktok", EVIL), EvilPlatform("youtube", EVIL))):
        await finished(opilio, "evil")
    for path in (
        "/projects", "/projects/evil", f"/projects?q={EVIL}", "/analytics", "/analytics/evil", "/analytics/evil?order=time",
        f"/analytics/evil?keyword={EVIL[:180]}", f"/analytics/evil?q={EVIL[:180]}&aspect={EVIL[:60]}", f"/analytics/{EVIL[:60]}x",
    ):  # fmt: skip
        await admin.goto(path)
        await expect(admin.locator("main h1, h1").first).to_be_visible()
        if path.startswith("/analytics/evil"):
            await expect(admin.locator("#figures")).to_contain_text("Share of voice")
        assert not await hacked(admin), path
    await admin.goto("/analytics/evil")
    await expect(admin.locator(".post")).to_have_count(6)
    assert await admin.locator("a[href^='javascript']").count() == 0


@pytest.mark.parametrize(
    ("address", "link"),
    [
        ("https://a.example/x?y=1", "https://a.example/x?y=1"),
        ("http://a.example", "http://a.example"),
        ("javascript:alert(1)", ""),
        (" javascript:alert(1)", ""),
        ("JaVaScRiPt:alert(1)", ""),
        ("java\nscript:alert(1)", ""),
        ("data:text/html,<script>1</script>", ""),
        ("//a.example", ""),
        ("https:a.example", ""),
        ("https://[", ""),
        ("", ""),
        (None, ""),
    ],
)
def test_only_the_web_is_linked_to(address: str | None, link: str) -> None:
    assert web_link(address) == link


def test_keywords_of_one_competitor_are_one_voice() -> None:
    rows = [
        Voice(role=role, keyword=word, posts=n, views=0, interactions=0, negative=1, positive=0,
              sentiment_score=None, share_percent=n, engagement_percent=n)
        for role, word, n in (("brand", "a", 40), ("competitor", "b", 35), ("brand", "c", 25))
    ]  # fmt: skip
    assert [(voice["name"], voice["posts"]) for voice in voices(rows, None)] == [
        ("a", 40),
        ("b", 35),
        ("c", 25),
    ]


async def test_many_viewers_share_one_query() -> None:
    asked: list[int] = []

    async def find() -> int:
        await asyncio.sleep(0.05)
        asked.append(1)
        return len(asked)

    recent = SingleFlight(seconds=0.2)
    assert await asyncio.gather(*(recent.get("a", find) for _ in range(5))) == [1] * 5
    assert await recent.get("a", find) == 1
    assert await recent.get("b", find) == 2
    await asyncio.sleep(0.3)
    assert await recent.get("a", find) == 3


async def test_a_failure_is_not_kept() -> None:
    async def fail() -> None:
        raise OSError("away")

    async def find() -> str:
        return "found"

    recent = SingleFlight()
    with pytest.raises(OSError, match="away"):
        await recent.get("a", fail)
    assert await recent.get("a", find) == "found"


def test_the_brand_comes_first_and_five_actors_are_compared() -> None:
    monday, tuesday = datetime(2026, 1, 5, tzinfo=UTC), datetime(2026, 1, 6, tzinfo=UTC)
    points = [VoicePoint(monday, "competitor", f"other {n}", 10 + n) for n in range(6)]
    points += [VoicePoint(tuesday, "brand", "tea", 1)]
    lines = voice_lines(points, Actors(None))
    assert [row["name"] for row in lines[:5]] == ["tea", "other 5", "other 4", "other 3", "other 2"]
    assert [row["posts"] for row in lines] == [0, 15, 14, 13, 12, 1, 0, 0, 0, 0]
