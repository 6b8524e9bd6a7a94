"""Results taken in per second, as a share of a bare aio-pika consumer that only acknowledges, in the same run.

    python -m bench collector            the ratio with Redis, ten thousand projects, fuzzed messages: two to four minutes
    OPILIO_BENCH_SCALE=5 …               five times as many messages

Real RabbitMQ, Redis and PostgreSQL are started for it and go when it ends.
"""

import asyncio
import logging
import os
import random
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import aio_pika
import msgspec
import structlog
from tests.collector.samples import analyzed, encoded, v2
from tests.components.servers import RabbitMQ, Redis

from bench.report import progress
from bench.size import scaled
from opilio.adapters.postgres import Database, migrate
from opilio.adapters.postgres.embedded import EmbeddedPostgres
from opilio.bus import Message, Outgoing
from opilio.collector.collector import Collector
from opilio.collector.config import Config
from opilio.contracts.topology import RESULTS, RESULTS_QUEUE, topology
from opilio.rabbitmq.bus import RabbitBus

MESSAGES = scaled(5_000, 300)
PROJECTS, TASKS = min(scaled(10_000, 100), 10_000), 20
_SEEDED_AT_ONCE = 1_000
FUZZED = scaled(10_000, 1_000)


def say(**figures: Any) -> None:
    print(msgspec.json.encode(figures).decode(), flush=True)


class Place:
    """The servers, a migrated database and a collector on them."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self.rabbit, self.redis = RabbitMQ(), Redis()
        stack.callback(self.rabbit.remove)
        stack.callback(self.redis.remove)
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="opilio-bench-"))
        Path(folder).chmod(0o755)
        self.postgres = EmbeddedPostgres(Path(folder) / "postgres")
        stack.callback(self.postgres.stop)

    async def open(self) -> "Place":
        self.rabbit.start()
        self.redis.start()
        url = self.postgres.start()
        await migrate.upgrade(url)
        self.database = await Database.connect(url)
        self.bus = await RabbitBus.connect(self.rabbit.url, topology())
        self.collector = Collector(self.database, self.bus, Config(), redis_url=self.redis.url)
        return self

    async def seed(self, projects: int, tasks: int, prefix: str) -> float:
        """Projects as dispatched, in bulk; answers the seconds that their states took in Redis."""
        async with self.database.session() as session:
            for first in range(0, projects, _SEEDED_AT_ONCE):  # a statement has a time limit
                last = min(first + _SEEDED_AT_ONCE, projects) - 1
                await session.connection.execute(SEED_PROJECTS, first, last, tasks, prefix)
                await session.connection.execute(SEED_TASKS, first, last, tasks, prefix)
            await session.connection.execute("vacuum analyze task")
            await session.connection.execute(SEED_STATES, prefix)
        began = time.perf_counter()
        await self.collector.heal.run_once()
        return time.perf_counter() - began

    async def publish(self, messages: list[Outgoing]) -> None:
        for at in range(0, len(messages), 1_000):
            await self.bus.publish_many(messages[at : at + 1_000])


SEED_PROJECTS = """
insert into project (project_id, brand_keywords, competitor_keywords, platforms, limit_per_keyword, tasks_total, definition,
                     snapshot, created_at, created_by)
select $4 || n, '{x}', '[]', '{tiktok}', 50, $3::int, '', '{}', now(), 'bench' from generate_series($1::int, $2::int) n
"""
SEED_STATES = """
insert into project_state (project_id, status, tasks_total, items_expected, crawl_total, version)
select project_id, 'PROCESSING', tasks_total, tasks_total * 50, tasks_total, 1 from project where starts_with(project_id, $1)
"""
SEED_TASKS = """
insert into task (platform, job_id, project_id, task_type, body, attempt, max_attempts, created_at, send_at, ready_at, sent_at, deadline)
select 'tiktok', $4 || n || '-brand-' || t, $4 || n, 'research_and_crawl', '{}', 1, 3, now(), now(), now(), now(), now() + interval '1 hour'
from generate_series($1::int, $2::int) n, generate_series(0, $3::int - 1) t
"""


def results(prefix: str, keys: list[tuple[int, int]]) -> list[Outgoing]:
    """Results of ten items each, of ten asked for, as crawlers send them."""

    def body(job_id: str) -> bytes:
        result = v2(job_id, found=10, items=True)
        result["limit_info"] |= {"requested_limit": 10, "applied_limit": 10, "platform_limited": False}
        return encoded(result)

    return [
        Outgoing(
            RESULTS,
            "crawler.tiktok.result",
            body(f"{prefix}{project}-brand-{task}"),
            {"x-job-id": f"{prefix}{project}-brand-{task}", "x-platform": "tiktok", "x-attempt": 1},
        )
        for project, task in keys
    ]


class Rate(NamedTuple):
    """Messages per second by the clock, and per second of this process's processor time: other work cannot slow that."""

    per_second: float
    per_cpu_second: float


class Stopwatch:
    def __init__(self) -> None:
        self._clock, self._cpu = time.perf_counter(), time.process_time()

    def rate(self, messages: int) -> Rate:
        return Rate(
            messages / (time.perf_counter() - self._clock), messages / (time.process_time() - self._cpu)
        )


async def bare(url: str, wanted: int) -> Rate:
    """The rate of a consumer that only acknowledges."""
    done, count = asyncio.Event(), 0

    async def ack(message: Any) -> None:
        nonlocal count
        await message.ack()
        count += 1
        if count == wanted:
            done.set()

    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=1_000)
        queue = await channel.get_queue(RESULTS_QUEUE, ensure=False)
        watch = Stopwatch()
        await queue.consume(ack)
        await done.wait()
        return watch.rate(wanted)


async def taken_in(place: Place, wanted: int) -> tuple[Rate, dict[str, int]]:
    """The rate of the collector's intake, and the verdicts by kind."""
    done = asyncio.Event()
    verdicts: dict[str, int] = {}

    async def handle(message: Message) -> Any:
        verdict = await place.collector.intake.handle(message)
        kind = type(verdict).__name__
        verdicts[kind] = verdicts.get(kind, 0) + 1
        if sum(verdicts.values()) == wanted:
            done.set()
        return verdict

    async def report() -> None:
        while True:
            await asyncio.sleep(5)
            progress(f"  {sum(verdicts.values()):,} of {wanted:,} messages taken in")

    reporting = asyncio.create_task(report())
    watch = Stopwatch()
    consumer = await place.bus.consume(RESULTS_QUEUE, handle, prefetch=1_000)
    await done.wait()
    rate = watch.rate(wanted)
    reporting.cancel()
    await consumer.close()
    return rate, verdicts


async def ratio(place: Place) -> None:
    """Three rounds of each, one after the other, the best of each: other work on the machine hits both alike."""
    tasks = 100
    await place.seed(MESSAGES * 3 // tasks + 1, tasks, "r")
    keys = [(n // tasks, n % tasks) for n in range(MESSAGES * 3)]
    random.Random(1).shuffle(keys)
    theirs, ours = [], []
    for number in range(3):
        progress(f"round {number + 1} of 3: {MESSAGES:,} results for a bare consumer, then for the collector")
        messages = results("r", keys[number * MESSAGES : (number + 1) * MESSAGES])
        await place.publish(messages)
        theirs.append(await bare(place.rabbit.url, MESSAGES))
        await place.publish(messages)
        rate, verdicts = await taken_in(place, MESSAGES)
        assert set(verdicts) == {"Ack"}, verdicts
        ours.append(rate)
    bare_rate, own_rate = (Rate(*map(max, zip(*rates, strict=True))) for rates in (theirs, ours))
    say(
        bench="collector.ratio", bare_per_second=round(bare_rate.per_second), taken_in_per_second=round(own_rate.per_second),
        ratio=round(own_rate.per_second / bare_rate.per_second, 3), goal=0.3, messages=MESSAGES * 3,
        bare_per_cpu_second=round(bare_rate.per_cpu_second), taken_in_per_cpu_second=round(own_rate.per_cpu_second),
        load=round(os.getloadavg()[0], 1),
    )  # fmt: skip


async def many_projects(place: Place) -> None:
    """Ten thousand projects open at once; results come in from all of them."""
    progress(f"opening {PROJECTS:,} projects of {TASKS} tasks")
    seconds = await place.seed(PROJECTS, TASKS, "m")
    chance = random.Random(2)
    keys = [(project, chance.randrange(TASKS)) for project in range(PROJECTS)] * 2
    chance.shuffle(keys)  # every result twice
    await place.publish(results("m", keys))
    rate, verdicts = await taken_in(place, len(keys))
    states = await asyncio.gather(*(place.collector.projects.state(f"m{n}") for n in range(0, PROJECTS, 97)))
    assert all((state.tasks_done, state.items_actual) == (1, 10) for state in states)
    say(
        bench="collector.projects", projects=PROJECTS, tasks=PROJECTS * TASKS, open_seconds=round(seconds, 1),
        taken_in_per_second=round(rate.per_second), verdicts=verdicts,
    )  # fmt: skip


def fuzzed(chance: random.Random, count: int) -> list[Outgoing]:
    """Messages of every format with bytes changed, cut out or put in."""
    whole = [
        encoded(v2("m0-brand-0", found=2, items=True)),
        encoded(v2("m0-brand-1", found=0, success=False, code="RATE_LIMITED")),
        encoded(
            {
                "success": True,
                "task_type": "x",
                "payload": [{"meta": {"job_id": "m0-brand-2", "platform": "tiktok"}}],
            }
        ),
        encoded({"job_id": "m0-brand-3", "task_type": "x", "status": "done", "metrics": {"successful": 1}}),
        encoded(analyzed(1, 3, 1, "m0")),
    ]
    messages = []
    for _ in range(count):
        body = bytearray(chance.choice(whole))
        for _ in range(chance.randint(0, 4)):
            at = chance.randrange(len(body))
            body[at : at + chance.randint(0, 2)] = chance.randbytes(chance.randint(0, 2))
        key = chance.choice(("crawler.tiktok.result", "analytics.result", "crawler.x.result"))
        messages.append(Outgoing(RESULTS, key, bytes(body)))
    return messages


async def fuzz(place: Place) -> None:
    """Every message is processed or kept with a reason; none is lost, none is asked for again."""
    progress(f"{FUZZED:,} messages with bytes changed")
    await place.publish(fuzzed(random.Random(3), FUZZED))
    rate, verdicts = await taken_in(place, FUZZED)
    assert set(verdicts) <= {"Ack", "DeadLetter"}, verdicts
    assert sum(verdicts.values()) == FUZZED, verdicts
    kept = await place.bus.depth("collector.results.dlq")
    assert kept == verdicts["DeadLetter"], (kept, verdicts)
    say(
        bench="collector.fuzz",
        messages=FUZZED,
        per_second=round(rate.per_second),
        verdicts=verdicts,
        in_dead_letters=kept,
    )


async def main() -> None:
    # A line for each of a hundred thousand refusals would measure the terminal.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    progress("starting RabbitMQ, Redis and PostgreSQL")
    async with AsyncExitStack() as stack:
        place = await Place(stack).open()
        stack.push_async_callback(place.database.close)
        stack.push_async_callback(place.collector.close)
        stack.push_async_callback(place.bus.close)
        await ratio(place)
        await many_projects(place)
        await fuzz(place)


if __name__ == "__main__":
    asyncio.run(main())
