"""A PostgreSQL server for the benches, and databases filled by SQL."""

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg

from opilio.adapters.postgres import Database, migrate
from opilio.adapters.postgres.embedded import EmbeddedPostgres
from opilio.runtime.bootstrap import Opilio, wire
from opilio.runtime.settings import load_settings


@asynccontextmanager
async def server() -> AsyncIterator[str]:
    """A PostgreSQL as `opilio up` starts it: durable, with the same settings."""
    folder = Path(tempfile.mkdtemp(prefix="opilio-bench-"))
    postgres = EmbeddedPostgres(folder / "pg")
    try:
        yield postgres.start()
    finally:
        postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)


async def create_database(server_url: str, name: str) -> str:
    connection = await asyncpg.connect(server_url)
    try:
        await connection.execute(f"drop database if exists {name} with (force)")
        await connection.execute(f"create database {name}")
    finally:
        await connection.close()
    return server_url.replace("/postgres?", f"/{name}?", 1)


@asynccontextmanager
async def opilio_on(url: str, **settings: Any) -> AsyncIterator[Opilio]:
    """A wired Opilio on a migrated database, without a web server."""
    folder = Path(tempfile.mkdtemp(prefix="opilio-bench-"))
    await migrate.upgrade(url)
    database = await Database.connect(url)
    try:
        yield wire(load_settings(data_dir=folder, database_url=url, **settings), database)
    finally:
        await database.close()
        shutil.rmtree(folder, ignore_errors=True)


async def run(url: str, sql: str, *args: Any) -> Any:
    connection = await asyncpg.connect(url)
    try:
        if args:
            return await connection.fetchval(sql, *args)
        return await connection.execute(sql)
    finally:
        await connection.close()


HOSTS = "insert into host (name) select 'shop' || n || '.example' from generate_series(1, $1::int) n"
POLICIES = """
insert into policy (url, host_id, frequency_hours, priority, max_retries, retry_backoff_minutes, timeout_minutes, job_queue, schedule)
select 'https://shop' || h.host_id || '.example/product/' || n, h.host_id, 24, coalesce($4::int, n % 101), 3, 5, 10, 'http', $3::text
from generate_series(1, $1::int) n join host h on h.host_id = 1 + n % $2::int"""
POOL = """
insert into crawl_pool (pool, budget_per_day, price, pages, tokens_at, refitted_at)
select '', count(*), 0.2, count(*), now(), now() from policy where pool is not null"""
DUE = """
insert into crawl_state (policy_id, enabled, next_run_at, place)
select policy_id, true, now() - interval '1 hour', 'due' from policy"""
# With true as its parameter: of pages that were crawled a day ago, when they were as bench.load finds them now.
JOBS = """
insert into crawl_state (policy_id, enabled, next_run_at, job_id, host_id, queue, place, priority, base_priority, retry_count, max_retries,
  run_at, created_at, created_by, last_success_at, last_result_id, last_price, last_currency, last_title, last_in_stock)
select p.policy_id, true, now() - interval '1 hour', opilio_uuid7(), p.host_id, p.job_queue, 'free', p.priority, p.priority, 0, p.max_retries,
  now(), now(), 'scheduler', case when $1::boolean then now() - interval '1 day' end, case when $1 then opilio_uuid7() end,
  case when $1 then 19.99 end, case when $1 then 'USD' end, case when $1 then 'A lamp' end, case when $1 then true end from policy p"""
INDEXES = (
    "select indexname, indexdef from pg_indexes where tablename = any($1) and indexname not like '%_pkey'"
)
STATISTICS_OF_INDEXES = """
select format('alter index %s alter column %s set statistics %s', a.attrelid::regclass, a.attnum, a.attstattarget) as change
from pg_index i join pg_attribute a on a.attrelid = i.indexrelid and a.attstattarget >= 0
where i.indrelid::regclass::text = any($1)"""


@asynccontextmanager
async def without_indexes(connection: Any, *tables: str) -> AsyncIterator[None]:
    """Filling is faster before the indexes are there; keys stay."""
    found = await connection.fetch(INDEXES, list(tables))
    targets = await connection.fetch(STATISTICS_OF_INDEXES, list(tables))
    for index in found:
        await connection.execute(f"drop index {index['indexname']}")
    yield
    await connection.execute("set maintenance_work_mem = '512MB'")
    for index in found:
        await connection.execute(index["indexdef"])
    for target in targets:
        await connection.execute(target["change"])


async def fill(
    url: str,
    policies: int,
    *,
    hosts: int = 1000,
    jobs: bool = False,
    due: bool = False,
    crawled: bool = False,
    schedule: str = "fixed",
    priority: int | None = None,
) -> None:
    """Policies, and for each of them a pending job, the first or a later one, or a place among the due ones, as wanted.

    They have all priorities from 0 to 100, or one.
    """
    connection = await asyncpg.connect(url, command_timeout=600)
    try:
        await connection.execute("set synchronous_commit = off")
        async with without_indexes(connection, "policy", "crawl_state"):
            await connection.execute(HOSTS, hosts)
            await connection.execute(POLICIES, policies, hosts, schedule, priority)
            if jobs:
                await connection.execute(JOBS, crawled)
            if due:
                await connection.execute(DUE)
    finally:
        await connection.close()
    await settle(url)


async def settle(url: str) -> None:
    """What filling left to do, for PostgreSQL in the background, is done before anything is measured."""
    for statement in ("vacuum analyze", "checkpoint"):
        await run(url, statement)
