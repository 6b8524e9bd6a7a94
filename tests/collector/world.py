"""The collector at work on one database and one bus, with everything a test wants to send and to see."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import uuid4

import aio_pika
import msgspec
from redis.asyncio import Redis

from opilio.adapters.local_bus import LocalBus
from opilio.adapters.postgres import Database
from opilio.bus import Ack, Bus, Message
from opilio.collector.collector import Collector
from opilio.collector.config import Config
from opilio.contracts.projects import ProjectInput
from opilio.contracts.topology import INBOUND, LIFECYCLE, RESULTS, topology
from opilio.rabbitmq.bus import RabbitBus
from tests.collector.samples import encoded

QUICK = Config(backoff=timedelta(seconds=0.2), task_timeout=timedelta(seconds=60))


async def until(condition: Callable[[], Awaitable[Any]], seconds: float = 20) -> Any:
    """Waits for what another task or process brings about, and answers it."""
    async with asyncio.timeout(seconds):
        while not (found := await condition()):
            await asyncio.sleep(0.02)
    return found


async def clean_redis(url: str) -> str:
    client: Any = Redis.from_url(url)
    await client.flushdb()
    await client.aclose()
    return url


class World:
    def __init__(
        self, database: Database, bus: Bus, config: Config, redis_url: str | None, report: Any = None
    ) -> None:
        self.db = database
        self.bus = bus
        self.redis_url = redis_url
        self.told: list[dict[str, Any]] = []
        self.collector = Collector(
            database, bus, config, redis_url=redis_url, report=report or self._report, watchdog_interval=0.1
        )
        self.tasks: asyncio.Queue[Message] = asyncio.Queue()

    async def _report(self, session: Any, **report: Any) -> bool:
        self.told.append(report)
        return True

    # ── what comes in ────────────────────────────────────────────────────────────────────────────

    async def create(self, project_id: str = "proj123", **fields: Any) -> str:
        fields = {"brand_keywords": ["iphone", "samsung"]} | fields
        return await self.collector.projects.create(ProjectInput(project_id=project_id, **fields), by="test")

    async def inbound(
        self, body: Any, key: str = "crawler.tiktok.research_keyword", exchange: str = INBOUND
    ) -> None:
        await self.bus.publish(exchange, key, body if isinstance(body, bytes) else encoded(body))

    async def project_created(self, payload: dict[str, Any]) -> None:
        event = {
            "event_id": str(uuid4()),
            "event_type": "project.created",
            "timestamp": "2026-01-15T10:00:00Z",
        }
        await self.inbound({**event, "payload": payload}, "project.created", LIFECYCLE)

    async def result(self, body: Any, key: str = "crawler.tiktok.result", **more: Any) -> None:
        await self.bus.publish(RESULTS, key, body if isinstance(body, bytes) else encoded(body), **more)

    async def analyzed(self, body: dict[str, Any]) -> None:
        await self.result(body, "analytics.result")

    # ── what can be seen ─────────────────────────────────────────────────────────────────────────

    async def take_tasks(self, *platforms: str) -> None:
        async def take(message: Message) -> Ack:
            self.tasks.put_nowait(message)
            return Ack()

        for platform in platforms or ("tiktok", "youtube"):
            await self.bus.consume(f"crawler.{platform}.queue", take, prefetch=50)

    async def next_task(self, seconds: float = 20) -> tuple[dict[str, Any], Message]:
        async with asyncio.timeout(seconds):
            message = await self.tasks.get()
        return msgspec.json.decode(message.body), message

    async def state(self, project_id: str = "proj123") -> dict[str, Any]:
        return msgspec.to_builtins(await self.collector.projects.state(project_id))

    async def reaches(
        self, project_id: str = "proj123", seconds: float = 20, **fields: Any
    ) -> dict[str, Any]:
        """Waits until the state has these values; says what it has when it does not come."""
        got: dict[str, Any] = {}

        async def there() -> bool:
            nonlocal got
            got = await self.state(project_id)
            return fields.items() <= got.items()

        try:
            await until(there, seconds)
        except TimeoutError:
            raise AssertionError(f"wanted {fields}, the state is {got}") from None
        return got

    async def rows(self, query: str, *args: Any) -> list[Any]:
        async with self.db.session() as session:
            return await session.connection.fetch(query, *args)

    async def dead_letters(self, queue: str, count: int = 1) -> list[tuple[str, bytes]]:
        """Reason and body of what lies in a dead-letter queue, once there are so many."""
        if isinstance(self.bus, LocalBus):

            async def found() -> list[Any]:
                rows = await self.rows(
                    "select reason, body from dead_letter where queue = $1 order by dead_at", queue
                )
                return rows if len(rows) >= count else []

            return [(row["reason"], row["body"]) for row in await until(found)]

        async def deep() -> bool:
            return await self.bus.depth(queue) >= count

        await until(deep)
        async with await aio_pika.connect(self.bus._url) as connection:
            channel = await connection.channel()
            source = await channel.get_queue(queue, ensure=False)
            got = [await source.get(no_ack=False) for _ in range(count)]
            return [(str(message.headers["x-reason"]), message.body) for message in got]


@asynccontextmanager
async def running(
    kind: str, database: Database, request: Any, config: Config = QUICK, report: Any = None
) -> AsyncIterator[World]:
    """`embedded` is the local bus with the state in PostgreSQL, `real` is RabbitMQ with Redis."""
    wanted = topology(config.platforms)
    redis_url, bus = None, None
    if kind == "real":
        url = request.getfixturevalue("rabbitmq_url")
        redis_url = await clean_redis(request.getfixturevalue("redis_url"))
        bus = await RabbitBus.connect(url, wanted)
    else:
        bus = await LocalBus.connect(database, wanted)
    world, stop = World(database, bus, config, redis_url, report), asyncio.Event()
    work = asyncio.create_task(world.collector.run(stop))
    try:
        yield world
    finally:
        stop.set()
        await work
        await bus.close()
        await world.collector.close()
