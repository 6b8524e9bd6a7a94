"""The hot path reads a bounded number of pages, whatever waits and whatever the planner believes.

The statistics of a queue are always wrong: taken when it was empty and used when it is full, or the other way
round. So the pages that a statement touches are counted, not the names of the indexes that it uses.
"""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from opilio.adapters.postgres import Statement
from opilio.crawl.politeness import Limits
from opilio.crawl.priority import Rules
from opilio.crawl.sql import QUERIES
from opilio.ids import random_uuids
from tests.crawl.farm import Farm

FILL = """
with h as (insert into host (name, gated, cooling_until) select 'h' || n || '.example', n = 1,
             case n when 1 then 'infinity'::timestamptz else '-infinity' end from generate_series(1, 50) n returning host_id, gated),
p as (insert into policy (url, host_id, frequency_hours, priority, max_retries, retry_backoff_minutes, timeout_minutes, job_queue)
      select 'https://h' || n || '.example/', h.host_id, 24, n % 101, 3, 5, 10, 'http'
      from generate_series(1, $1::int) n join h on h.host_id = 1 + n % 50 returning policy_id, host_id, priority)
insert into crawl_state (policy_id, enabled, next_run_at, job_id, host_id, queue, place, priority, base_priority, retry_count, max_retries,
  run_at, created_at, created_by)
select p.policy_id, true, now(), opilio_uuid7(), p.host_id, 'http', case when h.gated then 'gated' else 'free' end, p.priority, p.priority, 0, 3,
  now(), now(), 'scheduler'
from p join h on h.host_id = p.host_id"""
GATE = "insert into gate select host_id, 'http', 100, 'infinity' from host where gated"
SIZES = [0, 1_000, 200_000]
TEN_SLOTS = {"slots": 10, "bots": ["bot"], "first_slots": [1]}
RULES = Rules()
STORE = Path(__file__).parents[2] / "docs/explanation/store.md"


def literal(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool | int | float):
        return str(value).lower()
    if isinstance(value, bytes):
        return f"'\\x{value.hex()}'"
    if isinstance(value, tuple):  # where a row lies
        return f"'{value}'::tid"
    if isinstance(value, list):
        return f"array[{', '.join(map(literal, value))}]" if value else "'{}'"
    if isinstance(value, datetime):
        return f"'{value.isoformat()}'"
    return f"'{value}'::uuid" if isinstance(value, UUID) else f"'{value}'"


async def pages(farm: Farm, statement: Statement | str, **params: Any) -> int:
    """How many pages a statement touches, under the plan that the hot path's connections use."""
    if isinstance(statement, str):
        statement = getattr(QUERIES, statement)
    assert isinstance(statement, Statement)
    if "tokens" in statement.params:  # it locks jobs once more
        params["tokens"] = random_uuids(params["slots"])
    async with farm.database.transaction(hot=True) as session:
        connection = session.connection
        await connection.execute(f"prepare probe as {statement.sql}")
        values = ", ".join(map(literal, statement.bind(params)))
        plan = await connection.fetchval(f"explain (analyze, buffers, format json) execute probe({values})")
        await connection.execute("deallocate probe")
        top = plan[0]["Plan"]
        return int(top["Shared Hit Blocks"] + top["Shared Read Blocks"])


async def crowd(farm: Farm, size: int) -> None:
    """So many waiting jobs, a fiftieth of them behind a closed gate, in tables that were last analysed when empty."""
    async with farm.database.session() as session:
        for table in ("crawl_state", "gate", "host", "policy"):
            await session.connection.execute(f"alter table {table} set (autovacuum_enabled = off)")
            await session.connection.execute(f"analyze {table}")
        await session.connection.execute(FILL, size, timeout=600)  # not a question of speed
        await session.connection.execute(GATE)


@pytest.mark.parametrize("size", SIZES)
async def test_statistics_from_an_empty_queue_on_a_full_one(farm: Farm, size: int) -> None:
    await crowd(farm, size)
    await check_pages(farm)


async def test_statistics_from_when_every_policy_was_due(farm: Farm) -> None:
    """The rows were there when they were counted, but none of them had a job."""
    await crowd(farm, 20_000)
    jobs = await farm.rows("update crawl_state set place = 'due', job_id = null returning policy_id")
    async with farm.database.session() as session:
        await session.connection.execute("vacuum (index_cleanup on, analyze) crawl_state")
    await farm.rows(
        "update crawl_state s set place = case when h.gated then 'gated' else 'free' end, job_id = opilio_uuid7() "
        "from host h where h.host_id = s.host_id"
    )
    half = [row["policy_id"] for row in jobs[:10_000]]
    await farm.rows(
        "update crawl_state set place = 'locked', locked_by = 'other', locked_at = now(), locked_until = now() + interval '1 day', "
        "lock_ttl_seconds = 9, lock_token = gen_random_uuid() where policy_id = any($1) and place = 'free'",
        half,
    )
    async with farm.database.session() as session:
        # Dead entries are another matter.
        await session.connection.execute("vacuum (index_cleanup on) crawl_state")
    await check_pages(farm)


async def ten_due(farm: Farm) -> dict[str, Any]:
    """Ten policies that are due, among all that wait, and what the scheduler says to make their jobs."""
    await farm.rows(
        "update crawl_state set place = 'due', job_id = null where policy_id in "
        "(select policy_id from crawl_state where place = 'free' limit 10)"
    )
    bands = {
        f"{name}_{part}": list(getattr(rule, part))
        for name, rule in (("overdue", RULES.overdue), ("error", RULES.error_rate), ("hot", RULES.hot))
        for part in ("bands", "points")
    }
    return {"most": 1000, "fleet_gated": False, "fill_idle": False, "now": None, **bands}


async def found(farm: Farm) -> dict[str, Any]:
    """Ten jobs, as a look behind gates finds them."""
    rows = await farm.rows("select ctid, job_id, priority from crawl_state where place = 'gated' limit 10")
    return {
        "found_at": [row["ctid"] for row in rows],
        "found_ids": [row["job_id"] for row in rows],
        "found_priorities": [row["priority"] for row in rows],
    }


async def check_pages(farm: Farm) -> None:
    hosts = [row["host_id"] for row in await farm.rows("select host_id from host where not gated limit 10")]
    jobs = [row["job_id"] for row in await farm.rows("select job_id from job_active limit 10")]
    pull = {**TEN_SLOTS, "now": None, "locked": "locked", "fleet_gated": False}
    touched = {
        "a pull": await pages(
            farm,
            QUERIES.without("lock_jobs", "found"),
            **pull,
            free_queues=["http"],
            start_priorities=[101],
            start_ids=[UUID(int=0)],
            look_bots=["bot"],
            look_most=[100],
        ),
        "a pull behind gates": await pages(
            farm, "find_behind_gates", queues=["http"], host_ids=hosts, allowed=[1] * len(hosts)
        ),
        "jobs that were found": await pages(
            farm,
            "lock_jobs",
            **pull,
            **await found(farm),
            free_queues=[],
            start_priorities=[],
            start_ids=[],
            look_bots=None,
            look_most=None,
        ),
        "is a gate open?": await pages(
            farm, "look_before_pull", queues=["http"], bots=["bot"], cap=1000, now=None
        ),
        "readying jobs": await pages(farm, "ready_jobs", fleet_gated=False, now=None),
        "taking gates": await pages(farm, "take_gates", queues=["http"], most=10, now=None),
        "counting the skipped": await pages(
            farm, "held_elsewhere", queues=["http"], host_ids=None, most=200, now=None
        ),
        "when to ask again": await pages(farm, "next_chance", queues=["http"], now=None),
        "taking ten jobs": await pages(farm, "read_jobs", job_ids=jobs, now=datetime.now(UTC)),
        "a sweep": await pages(farm, "find_expired", most=1000, now=None),
        "the locks of a bot": await pages(farm, "count_locks", bots=["bot"], cap=1000),
        "what a host has out": await pages(farm, "count_held", host_ids=hosts[:1], now=None),
        "ten jobs made": await pages(farm, "create_due", **await ten_due(farm)),
    }
    most = {
        "a pull": 600, "a pull behind gates": 400, "jobs that were found": 500, "readying jobs": 50, "is a gate open?": 500, "taking gates": 500, "counting the skipped": 500,
        "when to ask again": 500, "taking ten jobs": 300, "a sweep": 20, "the locks of a bot": 50, "what a host has out": 700, "ten jobs made": 500,
    }  # fmt: skip
    assert {name: count for name, count in touched.items() if count > most[name]} == {}, touched


async def test_without_gates_the_lookup_is_cheap(farm: Farm) -> None:
    assert (
        await pages(
            farm,
            "look_before_pull",
            queues=["http", "js", "special"],
            bots=["bot"],
            cap=1000,
            now=None,
        )
        < 20
    )


@pytest.mark.parametrize("limits", [Limits(), Limits(5, None)])
async def test_statistics_from_a_full_queue_on_an_empty_one(farm: Farm, limits: Limits) -> None:
    await farm.rows(FILL, 20_000)
    async with farm.database.session() as session:
        await session.connection.execute("analyze crawl_state")
        await session.connection.execute("truncate crawl_state, gate")
    await farm.policies(3, host="new.example")
    await farm.opilio.hosts.set_limits("new.example", limits)
    await farm.due()
    assert len(await farm.pull()) == 3


async def test_every_index_that_a_job_pays_for_is_listed_with_its_reader(farm: Farm) -> None:
    rows = await farm.rows(
        "select indexname from pg_indexes where tablename in ('crawl_state', 'job_archive', 'result', 'event')"
    )
    listed = set(re.findall(r"^\| `(\w+)` \|", STORE.read_text(encoding="utf-8"), re.MULTILINE))
    tables = {"policy", "crawl_state", "result"}  # the first table of the page
    assert listed - tables == {row["indexname"] for row in rows}
