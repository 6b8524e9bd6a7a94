"""The upgrade of a database with a million archived jobs, and back, while others go on: how long do they wait for a lock at most?

The jobs are stored as revision 0024 stored them: a row of the job, of its result and of its event each; half of them ended today, whose
partitions are in use. Before the way back there are jobs of the newest form as well. Whoever writes does what a submit did at 0024. How
long statements take is told, too, but that depends on how busy the machine is, with and without an upgrade.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from bench.databases import HOSTS, POLICIES, create_database, server
from bench.report import Table, median, percentile, progress
from bench.size import scaled
from opilio.adapters.postgres import migrate

BEFORE = "0024"
PAGES, HOST_COUNT = scaled(20_000, 100), 100
ROUNDS, CARRIED_ROUNDS, DAYS = scaled(50, 4), scaled(10, 2), 5
ALONE_SECONDS = scaled(5, 1)
BETWEEN = 0.005
LONGEST = 1.0
PARTITIONS = {"job_archive": "day", "event": "day", "result": "month"}

STATES = """
insert into crawl_state (policy_id, enabled, next_run_at, place)
select policy_id, true, now() + interval '1 day', 'due' from policy"""
ARCHIVED = """
with ended as materialized (
  select p.policy_id, p.host_id, p.url, opilio_uuid7() as job_id, opilio_uuid7() as result_id, $1::timestamptz as at
  from policy p where p.policy_id = any($2::uuid[])),
archived as (
  insert into job_archive (job_id, policy_id, host_id, queue, status, priority, base_priority, retry_count, max_retries, run_at, created_at,
    created_by, locked_by, locked_at, locked_until, lock_ttl_seconds, lock_token, finished_at, finished_by, reason, result_id, digest, answer,
    next_run_at)
  select e.job_id, e.policy_id, e.host_id, 'http', 'done', 50, 50, 0, 3, e.at - interval '1 minute', e.at - interval '1 minute',
    'scheduler', 'bench-1', e.at - interval '5 seconds', e.at + interval '595 seconds', 600, gen_random_uuid(), e.at, 'bot:bench-1',
    'result accepted', e.result_id, sha256(uuid_send(e.job_id)), '{"price": 19.99, "currency": "USD"}', e.at + interval '1 day'
  from ended e),
stored as (
  insert into result (result_id, job_id, policy_id, bot_id, price, currency, title, in_stock, crawl_duration, crawled_at)
  select e.result_id, e.job_id, e.policy_id, 'bench-1', 19.99, 'USD', 'A lamp', true, 0.8, e.at from ended e),
state as (
  update crawl_state s set last_success_at = e.at, last_result_id = e.result_id from ended e where s.policy_id = e.policy_id)
insert into event (type, subject, data, occurred_at, logged_at, job_id, policy_id, result_id)
select 'crawl.job.completed', e.url,
  '{"bot_id": "bench-1", "price": 19.99, "currency": "USD", "title": "A lamp", "in_stock": true, "crawl_duration": 0.8}',
  e.at, e.at, e.job_id, e.policy_id, e.result_id
from ended e"""
CARRIED = """
insert into job_archive (job_id, policy_id, host_id, queue, status, priority, base_priority, retry_count, max_retries, created_at, locked_by,
  locked_at, lock_ttl_seconds, lock_token, finished_at, digest, next_run_at, outcome_id, seq, subject, price, currency, title, in_stock,
  crawl_duration)
select e.job_id, p.policy_id, p.host_id, 'http', 'done', 50, 50, 0, 3, $1::timestamptz, 'bench-1', $1, 600, gen_random_uuid(), $1,
  sha256(uuid_send(e.job_id)), $1 + interval '1 day', opilio_uuid7(), nextval('outbox_seq_seq'), p.url, 18.49, 'USD', 'A lamp', true, 0.8
from policy p cross join lateral (select opilio_uuid7() as job_id, p.policy_id) e"""
READS = {
    "job": "select status, result_id from job where job_id = $1",
    "results of a page": "select id, price from crawl_result where policy_id = $1 order by crawled_at desc limit 20",
    "newest events": "select seq, type, subject from event_log where $1::uuid is not null order by seq desc limit 50",
}
# What people and programs see, at each revision alike.
JOBS_OF_PAGES = """
select j.job_id, j.status, j.run_at, j.created_by, j.locked_by, j.locked_until, j.finished_at, j.finished_by, j.reason, j.result_id,
  r.price, r.currency, r.title, r.in_stock, r.crawl_duration, r.crawled_at, archived_answer(a) as answer
from job j join job_archive a on a.job_id = j.job_id join crawl_result r on r.policy_id = j.policy_id and r.id = j.result_id
where j.policy_id = any($1::uuid[]) and j.finished_at <= $2 order by j.job_id"""
OTHERS = "others"
LONGEST_LOCK = f"""
select coalesce(max(extract(epoch from clock_timestamp() - l.waitstart)), 0)::float8
from pg_locks l join pg_stat_activity a on a.pid = l.pid where not l.granted and a.application_name = '{OTHERS}'"""
EVENTS = """
select seq, event_id, type, subject, occurred_at, logged_at, data, convert_from(body, 'UTF8') as body from event_log
where seq = any($1::bigint[]) order by seq"""


@dataclass
class Waits:
    """How long each statement of the others took, in seconds, and the longest that one was seen to wait for a lock."""

    write: list[float] = field(default_factory=list)
    read: list[float] = field(default_factory=list)
    lock: float = 0.0


@dataclass
class Figures:
    seconds: float
    waits: Waits


@asynccontextmanager
async def connected(url: str, name: str = "bench") -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url, command_timeout=600, server_settings={"application_name": name})
    try:
        yield connection
    finally:
        await connection.close()


async def repeat(took: list[float], statement: Callable[[], Awaitable[Any]], done: asyncio.Event) -> None:
    while not done.is_set():
        began = time.perf_counter()
        await statement()
        took.append(time.perf_counter() - began)
        await asyncio.sleep(BETWEEN)


async def beside(url: str, pages: Sequence[UUID], work: Awaitable[Any]) -> Figures:
    """Does `work` while others write and read, each on a connection of its own."""
    waits, done = Waits(), asyncio.Event()

    async def write() -> None:
        async with connected(url, OTHERS) as connection:
            turns = iter(range(1_000_000_000))
            await repeat(
                waits.write,
                lambda: connection.execute(ARCHIVED, datetime.now(UTC), [pages[next(turns) % len(pages)]]),
                done,
            )

    async def read(sql: str) -> None:
        async with connected(url, OTHERS) as connection:
            await repeat(waits.read, lambda: connection.fetch(sql, pages[0]), done)

    async def watch() -> None:
        async with connected(url) as connection:
            while not done.is_set():
                waits.lock = max(waits.lock, await connection.fetchval(LONGEST_LOCK))
                await asyncio.sleep(BETWEEN)

    async with asyncio.TaskGroup() as others:
        others.create_task(watch())
        others.create_task(write())
        for sql in READS.values():
            others.create_task(read(sql))
        began = time.perf_counter()
        try:
            await work
        finally:
            done.set()
        seconds = time.perf_counter() - began
    return Figures(seconds, waits)


async def fill(url: str) -> list[UUID]:
    """Archived jobs as the revision stored them; answers the policies that they are of."""
    async with connected(url) as connection:
        await connection.execute("set synchronous_commit = off")
        await connection.execute(HOSTS, HOST_COUNT)
        await connection.execute(POLICIES, PAGES, HOST_COUNT, "fixed", None)
        await connection.execute(STATES)
        now = datetime.now(UTC)
        for table, unit in PARTITIONS.items():
            for day in range(-DAYS, 2):
                await connection.execute(
                    "select opilio_partition($1, $2, $3)", table, unit, now + timedelta(days=day)
                )
        pages = [
            row["policy_id"] for row in await connection.fetch("select policy_id from policy order by 1")
        ]
        for number in range(ROUNDS):
            ended = now if number % 2 else now - timedelta(days=DAYS * (1 - number / ROUNDS))
            await connection.execute(ARCHIVED, ended, pages)
        for table in ("policy", "crawl_state", *PARTITIONS):
            await connection.execute(f"vacuum analyze {table}")
        await connection.execute("checkpoint")
        return pages


async def carry(url: str) -> None:
    """Jobs as they are stored since: one row each."""
    async with connected(url) as connection:
        await connection.execute("set synchronous_commit = off")
        for _ in range(CARRIED_ROUNDS):
            await connection.execute(CARRIED, datetime.now(UTC))
        await connection.execute("checkpoint")


class Sample:
    """A few pages and a few places in the log."""

    def __init__(self, pages: Sequence[UUID], until: datetime, last_event: int) -> None:
        self.pages, self.until = pages[:: max(1, len(pages) // 20)], until
        self.places = list(range(1, last_event, max(1, last_event // 2_000)))

    async def shown(self, url: str) -> list[dict[str, Any]]:
        """All that is told of it."""
        async with connected(url) as connection:
            jobs = await connection.fetch(JOBS_OF_PAGES, self.pages, self.until)
            events = await connection.fetch(EVENTS, self.places)
        if not jobs or len(events) != len(self.places):
            raise RuntimeError(f"{len(jobs)} jobs and {len(events)} of {len(self.places)} events were found")
        return [dict(row) for row in (*jobs, *events)]


async def sample(url: str, pages: Sequence[UUID]) -> Sample:
    async with connected(url) as connection:
        return Sample(pages, datetime.now(UTC), await connection.fetchval("select max(seq) from event_log"))


async def counts(url: str) -> tuple[int, ...]:
    async with connected(url) as connection:
        return tuple(
            [
                await connection.fetchval(f"select count(*) from {view}")
                for view in ("job_archive", "crawl_result", "event_log")
            ]
        )


def same(what: str, found: Any, wanted: Any) -> None:
    if found != wanted:
        raise RuntimeError(f"{what} differs from before: {str(found)[:300]} and {str(wanted)[:300]}")


async def measure(url: str) -> dict[str, Figures]:
    """Up and down again; raises if a job, a result or an event is not what it was."""
    migrate.load_alembic()
    await migrate.upgrade(url, BEFORE)
    await migrate.downgrade(url, BEFORE)
    progress(f"{PAGES * ROUNDS:,} jobs are archived as by revision {BEFORE}")
    pages = await fill(url)
    chosen = await sample(url, pages)
    before = await chosen.shown(url)
    figures = {"nothing": await beside(url, pages, asyncio.sleep(ALONE_SECONDS))}
    progress(f"upgrade to {migrate.newest()}")
    up = f"upgrade {BEFORE} → {migrate.newest()}"
    figures[up] = await beside(url, pages, migrate.upgrade(url))
    same("what is told after the upgrade", await chosen.shown(url), before)
    await carry(url)
    chosen = await sample(url, pages)
    before = await chosen.shown(url)
    progress(f"downgrade to {BEFORE}")
    down = f"downgrade, {PAGES * CARRIED_ROUNDS:,} jobs become three rows"
    figures[down] = await beside(url, pages, migrate.downgrade(url, BEFORE))
    same("what is told after the downgrade", await chosen.shown(url), before)
    written = sum(len(step.waits.write) for step in figures.values())
    same("the count of rows", await counts(url), (PAGES * (ROUNDS + CARRIED_ROUNDS) + written,) * 3)
    return figures


def report(figures: dict[str, Figures]) -> Table:
    columns = (
        "beside",
        "seconds",
        "longest lock ms",
        "writes",
        "write median ms",
        "write p99 ms",
        "reads",
        "read median ms",
        "read p99 ms",
    )
    table = Table(f"Statements of others, {PAGES * ROUNDS:,} archived jobs", columns)
    for step, found in figures.items():
        writes, reads = (
            (len(took), median(took) * 1e3, percentile(took, 0.99) * 1e3)
            for took in (found.waits.write, found.waits.read)
        )
        table.add(step, found.seconds, found.waits.lock * 1e3, *writes, *reads)
    for step, found in list(figures.items())[1:]:
        what = f"{step.split()[0].rstrip(',')}: longest wait of others for a lock, seconds"
        table.goal(what, found.waits.lock, at_most=LONGEST)
    table.notes.append(
        "Every job, result and event that was looked at is the same afterwards, and none is missing."
    )
    return table


async def main() -> Table:
    async with server() as server_url:
        return report(await measure(await create_database(server_url, "upgraded")))
