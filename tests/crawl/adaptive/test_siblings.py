"""Changes that come together: siblings of changed pages are crawled sooner, on hosts where that was seen before."""

from random import Random

import pytest

from opilio.crawl.adaptive import rule
from opilio.crawl.adaptive.change_rate import Rate
from opilio.crawl.adaptive.rule import Learnt, Visit
from opilio.crawl.adaptive.siblings import (
    MOST_PAGES,
    Sibling,
    Together,
    chance_of_change,
    folder,
    hurried,
    learn,
    together,
)
from tests.crawl.farm import Farm, said

SLOW = Rate(2.0, 400.0)
WAITING = Sibling(last=100.0, due=150.0, interval=50.0, rate=SLOW)
URLS = {
    "https://a.example/docs/web/page": "https://a.example/docs/web",
    "https://a.example/docs/web/page/": "https://a.example/docs/web",
    "https://a.example/docs/web/page/index.html": "https://a.example/docs/web",
    "https://a.example/docs/web/page/Default.aspx?x=1#top": "https://a.example/docs/web",
    "https://a.example/p?next=/a/b": "https://a.example",
}


def surprise(gap: float, *, changed: bool) -> float:
    """What a visit of the slow page saw minus what was expected."""
    seen = rule.learn(Learnt(), SLOW, Visit(0.0, gap, changed)).surprise
    assert seen is not None
    return seen


def seen(changed: bool, *, last: float = 119.0, gap: float = 30.0) -> Sibling:
    return Sibling(last, last + 50, 50.0, SLOW, surprise(gap, changed=changed), gap)


@pytest.mark.parametrize(("url", "parent"), URLS.items())
def test_the_folder_of_a_url(url: str, parent: str) -> None:
    assert folder(url) == parent


def test_a_common_change_brings_siblings_forward() -> None:
    pages = [seen(True), seen(True), WAITING]
    assert hurried(pages, 0.4, 0.0, 120.0) == [2]


def test_independent_pages_are_left_alone() -> None:
    assert hurried([seen(True), seen(True), WAITING], 0.0, 0.0, 120.0) == []


def test_unchanged_siblings_speak_against_it() -> None:
    pages = [seen(True), *(seen(False) for _ in range(20)), WAITING]
    assert hurried(pages, 0.4, 0.0, 120.0) == []


@pytest.mark.parametrize(
    "page",
    [
        WAITING._replace(last=119.5),  # visited since
        WAITING._replace(due=119.0),  # due anyway
    ],
)
def test_nothing_is_hurried_without_need(page: Sibling) -> None:
    assert hurried([seen(True), seen(True), page], 0.4, 0.0, 120.0) == []


def test_an_old_change_and_a_large_folder_say_nothing() -> None:
    assert hurried([seen(True), seen(True), WAITING], 0.4, 0.0, 140.0) == []
    assert hurried([seen(True)] * MOST_PAGES + [WAITING], 0.4, 0.0, 120.0) == []


def test_the_correlation_is_learnt_and_independent_hosts_have_none() -> None:
    random = Random(3)
    common, alone = Together(), Together()
    for _ in range(30):
        released = [random.random() < 0.1 for _ in range(40)]
        commons = [[surprise(21.0, changed=release) for _ in range(5)] for release in released]
        alones = [[surprise(21.0, changed=random.random() < 0.1) for _ in range(5)] for _ in range(40)]
        common = learn(common, together(commons, common.mean))
        alone = learn(alone, together(alones, alone.mean))
    assert common.correlation > 0.8
    assert alone.correlation == 0.0


def test_a_wrong_rate_is_no_common_change() -> None:
    """Pages that change more often than expected surprise at every visit, one like the other."""
    random, known = Random(5), Together()
    for _ in range(60):
        seen_tonight = [[surprise(21.0, changed=random.random() < 0.6) for _ in range(8)]]
        known = learn(known, together(seen_tonight, known.mean))
    assert known.mean == pytest.approx(0.6 - chance_of_change(SLOW, 21.0), abs=0.1)
    assert known.correlation == 0.0


async def test_folders_in_sql_are_the_same(farm: Farm) -> None:
    rows = await farm.rows("select url, opilio_folder(url) as folder from unnest($1::text[]) url", list(URLS))
    by_folder = {row["url"]: row["folder"] for row in rows}
    for url in URLS:
        for other in URLS:
            assert (by_folder[url] == by_folder[other]) == (folder(url) == folder(other))


async def test_it_works(farm: Farm) -> None:
    """Two pages of a folder change unexpectedly; the others become due, within the budget, and only there."""
    urls = [f"https://docs.example/{part}/{n}" for part in ("api", "blog") for n in range(4)]
    for url in urls:
        await farm.policy(url, schedule="adaptive", frequency_hours=24 * 7)
    await farm.opilio.budgets.refit()
    for price in (1, 1):
        farm.later(days=40)
        await visit_all(farm, price)
    await farm.rows("update host set siblings = 0.5, sibling_sums = '{1,1,1,1,0}'")
    farm.later(days=3)
    await farm.rows("update policy_due set due_at = $1::timestamptz + interval '20 days'", farm.clock.at)
    await farm.rows(
        "update policy_due set due_at = $1 from policy p "
        "where p.policy_id = policy_due.policy_id and p.url = any($2)",
        farm.clock.at,
        urls[:2],
    )
    assert await visit_all(farm, 2) == 2
    assert await farm.opilio.sibling_changes.run_once() == 2
    due = await farm.rows(
        "select p.url from policy p join policy_due d using (policy_id) where d.due_at <= $1 order by 1",
        farm.clock.at,
    )
    assert [row["url"] for row in due] == urls[2:4]
    await farm.rows("update crawl_pool set budget_per_day = 100")
    for url, brought_forward in ((urls[2], True), (urls[5], False)):
        policy_id = await farm.value("select policy_id from policy where url = $1", url)
        await farm.rows("update policy_state set next_run_at = now() - interval '1 minute'")
        why = await farm.opilio.insights.policy_why(policy_id)
        assert "waits for its turn within the budget of 100 crawls a day" in why.reasons[0].message
        assert (
            "brought forward because other pages of its folder changed" in why.reasons[0].message
        ) == brought_forward
        learnt = await farm.opilio.recrawl.policy(policy_id)
        assert ("brought forward because other pages" in learnt.why) == brought_forward
        assert (learnt.brought_forward_at is not None) == brought_forward
    assert await farm.opilio.sibling_changes.run_once() == 0
    await farm.audit()


async def test_how_changes_come_together_is_learnt_at_night(farm: Farm) -> None:
    for part in range(20):
        for page in range(5):
            await farm.policy(f"https://docs.example/{part}/{page}", schedule="adaptive")
    await farm.opilio.budgets.refit()
    farm.later(days=2)
    await visit_all(farm, 1)
    for night in range(1, 4):
        farm.later(days=2)
        await farm.rows("update policy_due set due_at = $1", farm.clock.at)
        # Each folder is rebuilt as a whole, one in four every night.
        await visit_all(farm, lambda url, night=night: night if int(url.split("/")[3]) % 4 == night else 0)
        await farm.opilio.budgets.refit_priors()
    assert await farm.value("select siblings from host") > 0.1


async def visit_all(farm: Farm, price) -> int:
    await farm.rows("update crawl_pool set tokens = 1000, budget_per_day = 1e6")
    await farm.due()
    done = 0
    while jobs := await farm.pull(most=100):
        sent = [farm.sent(job, price=price(job.url) if callable(price) else price) for job in jobs]
        for answer in await farm.opilio.submitter.submit(sent):
            said(answer)
        done += len(jobs)
    return done
