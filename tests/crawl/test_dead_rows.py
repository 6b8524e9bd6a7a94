"""Pulls while replaced row versions cannot be removed, because somebody's transaction stays open."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from opilio.adapters.postgres import Session, Statement
from opilio.crawl import dead_rows
from tests.crawl.farm import Farm, FarmMaker
from tests.crawl.test_plans import pages


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look counts as slow, and is remembered until the test looks again."""
    monkeypatch.setattr(dead_rows, "_MANY", 0)
    monkeypatch.setattr(dead_rows, "_SLOW_SECONDS", 0)
    monkeypatch.setattr(dead_rows, "_KEEP_SECONDS", 1e9)


def look_again(farm: Farm) -> None:
    farm.opilio.puller._dead_rows._look_at = 0


@asynccontextmanager
async def open_transaction(url: str) -> AsyncIterator[None]:
    reader = await asyncpg.connect(url)
    try:
        async with reader.transaction(isolation="repeatable_read"):
            await reader.fetchval("select count(*) from host")
            yield
    finally:
        await reader.close()


async def crawl(farm: Farm, batches: int) -> None:
    for _ in range(batches):
        done = [farm.sent(job) for job in await farm.pull(most=200)]
        assert all(reply.refusal is None for reply in await farm.opilio.submitter.submit(done))


async def cost(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The pages that each statement of a pull reads, with the parameters that it had in a real one."""
    asked: list[tuple[Statement, dict[str, Any]]] = []
    fetch = Session.fetch

    async def noted(session: Session, statement: Any, **params: Any) -> list[Any]:
        asked.append((statement, params))
        return await fetch(session, statement, **params)

    with monkeypatch.context() as patch:
        patch.setattr(Session, "fetch", noted)
        assert len(await farm.pull()) == 10
    return {statement.name: await pages(farm, statement, **params) for statement, params in asked}


async def test_a_pull_does_not_read_dead_rows_again(
    farm: Farm, database_url: str, monkeypatch: pytest.MonkeyPatch, slow: None
) -> None:
    await farm.policies(3_000)
    await farm.due()
    await crawl(farm, 1)
    async with open_transaction(database_url):
        before = await cost(farm, monkeypatch)
        await crawl(farm, 13)
        await farm.pull(most=10)  # the jobs of the last batch are known to be over
        after = await cost(farm, monkeypatch)
        assert sum(after.values()) < sum(before.values()) + 200, (before, after)
        # So much it would be without: 2,600 dead rows in each of three indexes.
        monkeypatch.setattr(dead_rows, "_MANY", 1e9)
        farm.opilio.puller._dead_rows._forget()
        look_again(farm)
        without = await cost(farm, monkeypatch)
        assert sum(without.values()) > sum(after.values()) + 200, (without, after)


async def test_every_job_is_found_also_those_that_come_back(farm: Farm, slow: None) -> None:
    for number in range(12):
        await farm.policy(f"https://shop.example/{number}", priority=10 * (number % 3), max_retries=3)
    await farm.due()
    first = await farm.pull(most=4)
    assert [job.priority for job in first] == [20] * 4
    for job in first:
        await farm.release(job)
    second = await farm.pull(most=5)
    assert [job.priority for job in second] == [20] + [
        10
    ] * 4  # of those that came back, the one that was last
    third = await farm.pull(most=12)  # more than is left: all of it, and what came back
    assert len({job.job_id for job in (*second, *third)}) == 12


async def test_a_job_that_comes_back_has_its_place_again_after_the_next_look(farm: Farm, slow: None) -> None:
    await farm.policies(6, priority=50)
    await farm.due()
    first, _ = await farm.pull(most=2)
    await farm.release(first)
    assert (await farm.pull(most=1))[0].job_id > first.job_id
    look_again(farm)
    assert (await farm.pull(most=1))[0].job_id == first.job_id


async def test_new_jobs_are_found_at_once_where_there_were_none(farm: Farm, slow: None) -> None:
    await farm.policies(3, priority=10)
    await farm.due()
    await farm.pull(most=1)
    await farm.policy("https://shop.example/urgent", priority=90)
    await farm.due()
    assert [job.url for job in await farm.pull(most=1)] == ["https://shop.example/urgent"]


async def test_queues_and_priorities_keep_their_order(farm: Farm, slow: None) -> None:
    for number in range(9):
        config = {"js_required": True} if number % 2 else {}
        await farm.policy(f"https://shop.example/{number}", priority=number * 10, crawl_config=config)
    await farm.due()
    pulled = [(await farm.pull(most=1, queues=("http", "js")))[0].priority for _ in range(9)]
    assert pulled == [80, 70, 60, 50, 40, 30, 20, 10, 0]
    assert await farm.pull(most=1, queues=("http", "js")) == []


async def test_the_cap_of_a_bot_holds(farm_with: FarmMaker, slow: None) -> None:
    farm = farm_with(bot_max_locked=80)
    await farm.policies(200)
    await farm.due()
    locked = [job for _ in range(20) for job in await farm.pull(most=9)]
    assert len(locked) == 80
    for job in locked[:30]:
        await farm.submit(job)
    assert len([job for _ in range(10) for job in await farm.pull(most=9)]) == 30
    await farm.audit()


async def test_another_process_exceeds_the_cap_by_an_eighth_at_most(farm_with: FarmMaker, slow: None) -> None:
    one, other = farm_with(bot_max_locked=80), farm_with(bot_max_locked=80)
    await one.policies(200)
    await one.due()
    assert len(await other.pull(most=1)) == 1  # counts the locks of the bot, and remembers them
    assert sum([len(await one.pull(most=9)) for _ in range(20)]) == 79
    assert sum([len(await other.pull(most=3)) for _ in range(20)]) <= 80 // 8


async def test_skipped_is_what_was_counted_a_moment_ago(farm: Farm, slow: None) -> None:
    await farm.policies(9)
    await farm.due()
    await farm.pull("ann", most=2)
    assert (await farm.ask("bob", most=2)).skipped == 2
    await farm.pull("ann", most=2)
    assert (await farm.ask("bob", most=2)).skipped == 2


async def test_nothing_is_remembered_while_all_is_well(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    remembered = farm.opilio.puller._dead_rows
    assert await remembered.first_jobs(["http"]) == []  # few dead rows
    monkeypatch.setattr(dead_rows, "_MANY", 0)
    monkeypatch.setattr(dead_rows, "_SLOW_SECONDS", 60)
    look_again(farm)
    assert await remembered.first_jobs(["http"]) == []  # many, but they are fast to read
    assert (await remembered.count_locks(["bot"]), await remembered.held_elsewhere(["http"], None)) == (
        None,
        None,
    )
