"""The jobs of a bot: found among the newest of all jobs, or by its name where it has few."""

from typing import Any
from uuid import UUID

import pytest

from opilio.adapters.postgres import load_queries
from opilio.insights import search
from opilio.insights.dashboard import JobFilter
from tests.crawl.farm import Farm
from tests.crawl.test_plans import literal

ENDED = """
insert into job_archive (job_id, policy_id, host_id, queue, status, priority, base_priority, retry_count, max_retries, created_at, locked_by,
  locked_at, lock_ttl_seconds, lock_token, finished_at)
select opilio_uuid7(), p.policy_id, p.host_id, 'http', 'done', n % 101, 50, 0, 3, now(), case when n = 15000 then 'rare' else 'bot-' || n % 3 end,
  now(), 600, gen_random_uuid(), now()
from policy p, generate_series(1, 30000) n"""


async def pages(farm: Farm, bot_id: str) -> list[UUID]:
    """Every job of the list, page by page."""
    found, cursor = [], None
    while True:
        page = await farm.opilio.insights.jobs(bot_id=bot_id, limit=2, cursor=cursor)
        found += [job.id for job in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return found


@pytest.mark.parametrize(
    "tried", [0, 4, 20_000], ids=["by its name", "some pages each way", "among the newest"]
)
async def test_every_way_finds_the_same(farm: Farm, monkeypatch: pytest.MonkeyPatch, tried: int) -> None:
    monkeypatch.setattr(search, "_TRIED_JOBS", tried)
    await farm.policies(10)
    await farm.due()
    jobs = {bot: await farm.pull(bot, most=5) for bot in ("bot-1", "bot-2")}
    for bot, held in jobs.items():
        for job in held:
            await farm.submit(job, bot, price=5, currency="USD")
    wanted = sorted((job.job_id for job in jobs["bot-1"]), reverse=True)
    assert await pages(farm, "bot-1") == wanted
    order: dict[str, Any] = {"sort": "priority", "page": 1, "size": 50}
    for reverse in (False, True):
        listed = await farm.opilio.sorted_lists.jobs(JobFilter(bot_id="bot-1"), reverse=reverse, **order)
        assert {job.id for job in listed} == set(wanted)
    assert await pages(farm, "nobody") == []


async def test_a_rare_bot_is_found_without_reading_the_archive(farm: Farm) -> None:
    await farm.policy()
    await farm.rows(ENDED)
    async with farm.database.session() as session:
        await session.connection.execute("vacuum analyze job_archive")
    assert len((await farm.opilio.insights.jobs(bot_id="rare")).items) == 1
    statement = load_queries("opilio.insights").ended_jobs
    unset = ("before", "status", "host", "policy_id", "policy_ids", "error", "since", "until")
    values = dict.fromkeys(unset) | {"bot_id": "rare", "rare_bot": True, "most": 51}
    async with farm.database.transaction() as session:
        await session.connection.execute("set local plan_cache_mode = force_custom_plan")
        await session.connection.execute(f"prepare probe as {statement.sql}")
        bound = ", ".join(map(literal, statement.bind(values)))
        plan = await session.connection.fetchval(
            f"explain (analyze, buffers, format json) execute probe({bound})"
        )
        await session.connection.execute("deallocate probe")
    await farm.rows("truncate job_archive")  # they had no crawl, which the audit would find
    top = plan[0]["Plan"]
    assert top["Shared Hit Blocks"] + top["Shared Read Blocks"] < 150, "the archive has about 700 pages"
