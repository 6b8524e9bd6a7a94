"""What a filter means is looked up first, so that lists stay fast; they show the same rows as without it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from opilio.contracts.policies import PolicyPatch
from opilio.insights import search
from opilio.insights.dashboard import Choice, JobFilter, PolicyFilter
from opilio.insights.prices import PriceFilter
from opilio.runtime.bootstrap import Opilio
from tests.dashboard.conftest import Bot, add_policy
from tests.dashboard.test_prices import crawl


async def jobs_of(opilio: Opilio, host: str) -> set[Any]:
    """The jobs of a host as every list finds them."""
    chosen = JobFilter(host=host)
    newest = {job.id for job in (await opilio.insights.jobs(host=host)).items}
    by_time = await opilio.sorted_lists.jobs(chosen, sort="time", reverse=False, page=1, size=50)
    for_bulk = await opilio.figures.job_ids(chosen, Choice(), 50)
    assert {job.id for job in by_time} == newest == {job for job, _ in for_bulk}
    assert await opilio.sorted_lists.count_jobs(chosen) == len(newest)
    return newest


@pytest.mark.parametrize("few", [200, 0])  # found through its policies; and as a host that has many of them
async def test_a_host_keeps_the_jobs_of_policies_that_left_it(
    opilio: Opilio, bot: Bot, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    moved = await add_policy(opilio, "https://a.example/moved")
    deleted = await add_policy(opilio, "https://a.example/deleted")
    await add_policy(opilio, "https://b.example/other")
    for policy in (moved, deleted):
        await crawl(opilio, bot, policy, price=1, currency="EUR")
    before = await jobs_of(opilio, "a.example")
    await opilio.policies.change(moved, PolicyPatch(url="https://b.example/moved"))
    await opilio.policies.delete([deleted])
    await crawl(opilio, bot, moved, price=2, currency="EUR")

    monkeypatch.setattr(search, "_FEW", few)
    assert len(before) == 2
    assert await jobs_of(opilio, "a.example") == before
    assert len(await jobs_of(opilio, "b.example")) == 1
    assert await jobs_of(opilio, "unknown.example") == set()


@pytest.mark.parametrize("most", [1000, 1])  # few policies have the text; and so many that each is looked at
async def test_a_search_finds_url_name_and_article_number(
    opilio: Opilio, bot: Bot, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    coat = await add_policy(opilio, "https://a.example/Coat")
    lamp = await add_policy(opilio, "https://a.example/lamp")
    await crawl(opilio, bot, coat, price=10, currency="EUR", title="ÁO KHOÁC", data={"sku": "A-1"})
    await crawl(opilio, bot, lamp, price=10, currency="EUR", title="Lamp", data={"sku": "A-12"})
    gone = await add_policy(opilio, "https://a.example/gone")
    await crawl(opilio, bot, gone, price=10, currency="EUR", title="Lamp")
    await opilio.policies.delete([gone])
    monkeypatch.setattr("opilio.insights.dashboard.MOST_LIKE", most)
    monkeypatch.setattr("opilio.insights.sorted_lists.COUNTED_AT_MOST", most)
    for text, wanted in (
        ("coat", [coat]),
        ("áo khoác", [coat]),
        ("A-1", [coat]),
        ("LAMP", [lamp]),
        ("a.example", [lamp, coat]),
        ("nothing", []),
    ):
        chosen = await opilio.figures.search_policies(PolicyFilter(q=text))
        rows = await opilio.figures.policies(chosen, sort="newest", page=1, size=50)
        assert [row["id"] for row in rows] == wanted, text
        due_first = await opilio.figures.policies(chosen, sort="next", page=1, size=50)
        assert {row["id"] for row in due_first} == set(wanted), text
        assert await opilio.sorted_lists.count_policies(chosen) == min(len(wanted), most), text
        assert await opilio.figures.policy_ids(chosen, Choice(), 50) == wanted[::-1], text


async def test_price_changes_of_a_host_are_not_crowded_out_by_newer_ones_of_others(
    opilio: Opilio, bot: Bot, monkeypatch: pytest.MonkeyPatch
) -> None:
    coat = await add_policy(opilio, "https://a.example/coat")
    lamp = await add_policy(opilio, "https://b.example/lamp")
    for policy in (coat, lamp):
        for price in (10, 20):
            await crawl(opilio, bot, policy, price=price, currency="EUR", title="A thing")
    monkeypatch.setattr("opilio.insights.prices.BOUND", 1)
    since = datetime.now(UTC) - timedelta(days=1)
    for chosen in (PriceFilter(host="a.example"), PriceFilter(q="coat")):
        rows = await opilio.prices.changes(chosen, since=since, sort="size", page=1, size=50)
        assert [(row["id"], row["old"], row["new"], row["change"]) for row in rows] == [(coat, 10, 20, 1.0)]
