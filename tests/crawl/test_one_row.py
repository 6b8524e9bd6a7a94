"""A policy has one row for its state, its due time and its job; views show the parts, and older versions write to them."""

import asyncio
from datetime import timedelta
from uuid import UUID

import asyncpg
import pytest

from tests.crawl.farm import Farm

ADD_JOB = """
insert into job_active (policy_id, host_id, queue, place, priority, base_priority, max_retries, run_at, created_at, created_by)
select policy_id, host_id, job_queue, 'free', 50, 50, 3, '2026-01-01', '2026-01-01', 'scheduler' from policy where policy_id = $1
on conflict (policy_id) do nothing returning job_id"""
ADD_DUE = """
insert into policy_due (policy_id, due_at) values ($1, $2)
on conflict (policy_id) do update set due_at = excluded.due_at, pool = excluded.pool"""

WAITS = "select exists (select 1 from pg_locks where not granted and pid <> pg_backend_pid() and locktype = 'transactionid')"


async def due(farm: Farm) -> list[UUID]:
    return [row["policy_id"] for row in await farm.rows("select policy_id from policy_due")]


async def test_a_policy_with_a_job_is_not_due(farm: Farm) -> None:
    policy_id = await farm.policy()
    assert await due(farm) == [policy_id]
    (job,) = await farm.rows(ADD_JOB, policy_id)
    assert await due(farm) == []
    assert [pulled.job_id for pulled in await farm.pull()] == [job["job_id"]]


async def test_a_second_job_is_not_made(farm: Farm) -> None:
    policy_id = await farm.policy()
    await farm.rows(ADD_JOB, policy_id)
    assert await farm.rows(ADD_JOB, policy_id) == []
    assert await farm.value("select count(*) from job_active") == 1


async def test_a_policy_that_was_switched_off_gets_no_job(farm: Farm) -> None:
    policy_id = await farm.policy()
    await farm.rows("update policy_state set enabled = false")
    assert await farm.rows(ADD_JOB, policy_id) == []


async def test_a_job_follows_its_policy_that_is_switched_off_and_on(farm: Farm) -> None:
    """Also one that was made in this moment, which the version before cannot see."""
    policy_id = await farm.policy()
    await farm.rows(ADD_JOB, policy_id)
    await farm.rows("update policy_state set enabled = false")
    assert await farm.rows("select place, run_at from job_active where run_at < 'infinity'") == []
    assert await farm.pull() == []
    await farm.rows("update policy_state set enabled = true")
    assert await farm.value("select place || ' ' || (run_at < 'infinity') from job_active") == "later true"


async def test_a_policy_is_due_when_its_job_is_gone(farm: Farm) -> None:
    """The version before deletes the job and says when its policy is due in one statement, in no known order."""
    policy_id = await farm.policy()
    await farm.rows(ADD_JOB, policy_id)
    next_run = farm.clock.at + timedelta(days=1)
    await farm.rows(ADD_DUE, policy_id, next_run)
    assert await due(farm) == []
    await farm.rows("delete from job_active")
    assert await farm.value("select due_at from policy_due") == next_run


async def test_a_policy_that_is_off_is_not_due(farm: Farm) -> None:
    policy_id = await farm.policy()
    await farm.rows("update policy_state set enabled = false")
    assert await due(farm) == []
    await farm.rows(ADD_DUE, policy_id, farm.clock.at)
    assert await due(farm) == []


async def test_an_older_reading_changes_only_what_it_meant_to(farm: Farm) -> None:
    """A view is read as of the beginning of a statement, and what was changed since must stay."""
    await farm.policy()
    async with farm.database.transaction() as first:
        await first.connection.execute("update crawl_state set failure_count = 8")
        second = asyncio.create_task(farm.rows("update policy_state set last_title = 'Lamp'"))
        async with farm.database.session() as watcher:
            while not await watcher.connection.fetchval(WAITS):
                await asyncio.sleep(0.01)
    await second
    (row,) = await farm.rows("select failure_count, last_title from crawl_state")
    assert tuple(row) == (8, "Lamp")


@pytest.mark.parametrize(
    ("change", "constraint"),
    [
        ("place = 'due'", "job_is_whole"),
        ("place = null", "job_is_whole"),
        ("job_id = null", "job_is_whole"),
        ("place = 'locked'", "lock_is_whole"),
        ("place = 'due', job_id = null, enabled = false", "due_is_enabled"),
        ("place = 'away'", "crawl_state_place_check"),
    ],
)
async def test_the_database_refuses_half_a_job(farm: Farm, change: str, constraint: str) -> None:
    await farm.policy()
    await farm.due()
    with pytest.raises(asyncpg.CheckViolationError) as refused:
        await farm.rows(f"update crawl_state set {change}")
    assert refused.value.constraint_name == constraint
