"""The schema goes down and up again with data in place, on every PostgreSQL that the wheel carries."""

import asyncio
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import asyncpg
import pytest

from opilio.adapters.postgres import Database, migrate

TABLES = """
  select count(*) from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where n.nspname = 'public' and c.relname <> 'alembic_version' and c.relname <> 'alembic_version_pkc'"""
FUNCTIONS = (
    "select count(*) from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'public'"
)
SCHEMA = """
  select string_agg(format('%s %s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull), e'\\n'
                    order by c.relname, a.attname)
  from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid
  where n.nspname = 'public' and a.attnum > 0 and not a.attisdropped"""


async def ask(url: str, sql: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(sql)
    finally:
        await connection.close()


async def fill(url: str) -> None:
    """A row in every table that the first revision made, as far as its keys allow."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("""
            insert into host (name) values ('a.example');
            insert into policy (url, host_id, frequency_hours, priority, max_retries, retry_backoff_minutes, timeout_minutes, job_queue)
              select 'https://a.example/' || n, 1, 24, 50, 3, 5, 10, 'http' from generate_series(1, 100) n;
            insert into policy_state (policy_id, enabled, next_run_at) select policy_id, true, now() from policy;
            insert into policy_due select policy_id, now() from policy limit 50;
            insert into job_active (policy_id, host_id, queue, place, priority, base_priority, max_retries, run_at, created_by)
              select policy_id, 1, 'http', 'free', 50, 50, 3, now(), 'scheduler' from policy limit 50;
            insert into result (result_id, job_id, policy_id, bot_id, crawled_at)
              select opilio_uuid7(), opilio_uuid7(), policy_id, 'bot', now() + n * interval '10 days'
              from policy, generate_series(-3, 3) n;
            insert into outbox (type, subject, data, occurred_at) values ('crawl.job.completed', 'x', '{}', now());""")
    finally:
        await connection.close()


async def test_down_and_up_with_data_in_place(database_url: str) -> None:
    before = await ask(database_url, SCHEMA)
    await fill(database_url)
    revisions = (await migrate.status(database_url)).current
    assert revisions is not None
    await migrate.downgrade(database_url, "base")
    assert await ask(database_url, TABLES) == 0, "nothing is left behind"
    assert await ask(database_url, FUNCTIONS) == 0
    status = await migrate.upgrade(database_url)
    assert status.up_to_date
    assert await ask(database_url, SCHEMA) == before
    await fill(database_url)


async def test_each_revision_goes_down_and_up_alone(database_url: str) -> None:
    await fill(database_url)
    head = (await migrate.status(database_url)).head
    while (current := (await migrate.status(database_url)).current) is not None and current > "0001":
        await migrate.downgrade(database_url, "-1")
        assert await ask(database_url, "select count(*) from policy") == 100, "an older schema keeps its rows"
    await migrate.upgrade(database_url)
    assert (await migrate.status(database_url)).current == head
    assert await ask(database_url, "select count(*) from job_active") == 50


async def test_many_processes_that_start_together_upgrade_once(server_url: str) -> None:
    name = "together"
    await ask(server_url, f"create database {name}")
    url = server_url.replace("/postgres?", f"/{name}?", 1)
    script = (
        f"import asyncio; from opilio.adapters.postgres import migrate; asyncio.run(migrate.upgrade({url!r}))"
    )
    racers = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(3)]
    assert [racer.wait(60) for racer in racers] == [0, 0, 0]
    assert (await migrate.status(url)).up_to_date
    await ask(server_url, f"drop database {name} with (force)")


JOURNEY = """
import asyncio, sys
from pathlib import Path
import msgspec
from opilio.contracts.bot_api import Outcome
from opilio.contracts.policies import PolicyInput
from opilio.crawl.pull import Pull
from opilio.crawl.politeness import Limits
from opilio.crawl.submission import parse
from opilio.runtime.bootstrap import open_opilio
from opilio.runtime.settings import load_settings

async def main(folder: Path) -> None:
    async with open_opilio(load_settings(data_dir=folder), upgrade=True) as opilio:
        async with opilio.database.session() as session:
            version = await session.connection.fetchval("show server_version_num")
        for n in range(5):
            await opilio.policies.create(PolicyInput(url=f"https://shop.example/{n}", max_retries=0))
        await opilio.hosts.set_limits("shop.example", Limits(2, None))
        await opilio.scheduler.create_due()
        while jobs := (await opilio.puller.pull(Pull("bot", 10, ("http",)))).jobs:
            assert len(jobs) <= 2
            for n, job in enumerate(jobs):
                said = {"job_id": str(job.job_id), "lock_token": str(job.lock_token), "success": n == 0}
                said |= {"price": 5, "currency": "USD"} if n == 0 else {}
                outcome = msgspec.json.decode(msgspec.json.encode(said), type=Outcome)
                await opilio.submitter.submit([parse("bot", outcome)])
        stats = await opilio.insights.stats()
        await opilio.retention.run()
        faults = await run_audit(opilio, Path(sys.argv[2]).read_text())
    print(version, stats.jobs["done"], stats.jobs["failed"], len(faults))

async def run_audit(opilio, sql):
    async with opilio.database.session() as session:
        return await session.connection.fetch(sql)

asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.mark.parametrize("version", [16, 18])
def test_a_journey_on_each_postgresql(version: int, server_dir: Path) -> None:
    audit = Path(__file__).parent / "crawl" / "audit.sql"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(JOURNEY), str(server_dir), str(audit)],
        env=os.environ | {"PGSERVER_POSTGRES_VERSION": str(version)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found, *counts = done.stdout.split()
    assert int(found) // 10_000 == version
    assert counts == ["3", "2", "0"]


async def test_views_carry_the_names_of_the_seeds(database: Database) -> None:
    wanted = {
        "crawl_policy": "id url enabled frequency_hours priority max_retries retry_backoff_minutes timeout_minutes next_run_at "
        "last_success_at last_failed_at failure_count",
        "crawl_job": "id url status locked_by locked_at lock_ttl_seconds policy_id priority retry_count max_retries last_error",
        "crawl_result": "id job_id policy_id price currency title in_stock parsed_data raw_html html_hash crawl_duration crawled_at",
    }
    async with database.session() as session:
        for view, columns in wanted.items():
            await session.connection.fetch(f"select {', '.join(columns.split())} from {view}")


async def test_an_upgrade_never_makes_others_queue_behind_it_for_long(database_url: str) -> None:
    """A long transaction reads every table; whoever comes while the upgrade waits for it is served soon."""
    await migrate.downgrade(database_url, "0006")
    reader, other = await asyncpg.connect(database_url), await asyncpg.connect(database_url)
    names = await reader.fetch(
        "select relname from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')"
    )
    tables = ", ".join(f'"{row[0]}"' for row in names if row[0] != "alembic_version")
    reading = reader.transaction()
    await reading.start()
    await reader.execute(f"lock table {tables} in access share mode")
    upgrade = asyncio.create_task(migrate.upgrade(database_url))
    slowest = 0.0
    for _ in range(8):
        began = time.monotonic()
        await other.fetchval("select count(*) from policy")
        slowest = max(slowest, time.monotonic() - began)
        await asyncio.sleep(1)
    assert not upgrade.done()
    await reading.rollback()
    assert (await upgrade).up_to_date
    assert slowest < 6
    await asyncio.gather(reader.close(), other.close())


ONE_ROW = Path(migrate.__file__).parents[2] / "migrations/versions/v0024_one_hot_row.up.sql"
PARTS = {
    "policy_state": "select policy_id, enabled, next_run_at, failure_count, last_title from policy_state order by 1",
    "job_active": "select policy_id, job_id, place, run_at, locked_by, lock_token from job_active order by 1",
    "policy_due": """
      select d.policy_id, d.due_at, d.pool from policy_due d
      where not exists (select 1 from job_active j where j.policy_id = d.policy_id) order by 1""",
}
# What processes of the version before do to the three tables, to rows that were copied and to rows that were not.
MEANWHILE = """
insert into policy (url, host_id, frequency_hours, priority, max_retries, retry_backoff_minutes, timeout_minutes, job_queue)
  values ('https://a.example/new', 1, 24, 50, 3, 5, 10, 'http');
insert into policy_state (policy_id, enabled, next_run_at) select policy_id, true, now() from policy where url like '%/new';
insert into policy_due (policy_id, due_at) select policy_id, now() from policy where url like '%/new';
update policy_state s set failure_count = 3, last_title = 'Lamp' from policy p where p.policy_id = s.policy_id and p.url ~ '[13]$';
with taken as (delete from policy_due d using policy p where p.policy_id = d.policy_id and p.url ~ '[57]$' returning d.policy_id)
insert into job_active (policy_id, host_id, queue, place, priority, base_priority, max_retries, run_at, created_by)
  select policy_id, 1, 'http', 'free', 50, 50, 3, now(), 'scheduler' from taken on conflict do nothing;
update job_active j set place = 'locked', locked_by = 'bot', locked_until = now(), lock_token = gen_random_uuid()
  from policy p where p.policy_id = j.policy_id and p.url ~ '[2579]$';
with gone as (delete from job_active j using policy p where p.policy_id = j.policy_id and p.url ~ '[29]$' returning j.policy_id),
told as (update policy_state s set next_run_at = '2030-01-01' from gone g where s.policy_id = g.policy_id returning s.policy_id, s.next_run_at)
insert into policy_due (policy_id, due_at) select policy_id, next_run_at from told on conflict (policy_id) do update set due_at = excluded.due_at;
with off as (update policy_state s set enabled = false from policy p where p.policy_id = s.policy_id and p.url ~ '[68]$' returning s.policy_id)
delete from policy_due d using off where d.policy_id = off.policy_id;
delete from policy where url ~ '44$';
delete from job_active j where not exists (select 1 from policy p where p.policy_id = j.policy_id);
delete from policy_due d where not exists (select 1 from policy p where p.policy_id = d.policy_id)"""


async def test_what_changes_while_rows_are_copied_is_followed(database_url: str) -> None:
    await migrate.downgrade(database_url, "0027")
    await fill(database_url)
    connection = await asyncpg.connect(database_url)
    await connection.execute(ONE_ROW.read_text())
    await connection.execute(
        "select copy_crawl_state(array(select policy_id from policy order by policy_id limit 60))"
    )
    await connection.execute(MEANWHILE)
    before = {part: await connection.fetch(sql) for part, sql in PARTS.items()}
    assert all(len(rows) > 9 for rows in before.values())
    await migrate.upgrade(database_url)
    assert {part: await connection.fetch(sql) for part, sql in PARTS.items()} == before
    await migrate.downgrade(database_url, "0027")
    assert {part: await connection.fetch(sql) for part, sql in PARTS.items()} == before
    await connection.close()


async def until_waits(task: asyncio.Task[str], watcher: asyncpg.Connection) -> None:
    while not await watcher.fetchval("select exists (select 1 from pg_locks where not granted)"):
        assert not task.done(), "it did not wait"
        await asyncio.sleep(0.01)


COPY_ALL = "select copy_crawl_state(array(select policy_id from policy))"
END_JOBS = """
with gone as (delete from job_active j using policy p where p.policy_id = j.policy_id and p.url ~ '[29]$' returning j.policy_id)
select count(*) from gone"""


@pytest.mark.parametrize(
    ("first", "second"),
    [(COPY_ALL, END_JOBS), (END_JOBS, COPY_ALL), ("delete from policy where url ~ '64$'", COPY_ALL)],
    ids=["copied, ended", "ended, copied", "deleted, copied"],
)
async def test_who_ends_a_job_or_deletes_a_policy_in_the_moment_in_which_it_is_copied(
    database_url: str, first: str, second: str
) -> None:
    """The one who comes second waits for the other, and finds what it did."""
    await migrate.downgrade(database_url, "0027")
    await fill(database_url)
    one, other, watcher = [await asyncpg.connect(database_url) for _ in range(3)]
    await one.execute(ONE_ROW.read_text())
    async with one.transaction():
        await one.execute(first)
        waiting = asyncio.create_task(other.execute(second))
        await until_waits(waiting, watcher)
    await waiting
    before = {part: await one.fetch(sql) for part, sql in PARTS.items()}
    await migrate.upgrade(database_url)
    assert {part: await one.fetch(sql) for part, sql in PARTS.items()} == before
    await asyncio.gather(*(connection.close() for connection in (one, other, watcher)))
