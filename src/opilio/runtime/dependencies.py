"""What Opilio needs outside of itself, beside PostgreSQL: is it there?"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

from opilio.runtime.settings import Settings

PATIENCE = 5.0
_EVERY = 10.0
Look = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Dependency:
    """One that is configured: its name in figures and logs, what people call it, where, and how to look for it."""

    key: str
    name: str
    url: str
    variable: str
    look: Look


def dependencies(settings: Settings) -> list[Dependency]:
    """Those of this deployment; embedded it has none."""
    known: Sequence[tuple[str, str, str | None, str, Callable[[str], Awaitable[None]]]] = (
        ("broker", "RabbitMQ", settings.amqp_url, "OPILIO_AMQP_URL", _reach_amqp),
        ("redis", "Redis", settings.redis_url, "OPILIO_REDIS_URL", _reach_redis),
        ("storage", "object storage", settings.blobs_url, "OPILIO_BLOBS_URL", _reach_blobs),
    )
    return [
        Dependency(key, name, url, variable, _looking(reach, url))
        for key, name, url, variable, reach in known
        if url
    ]


def _looking(reach: Callable[[str], Awaitable[None]], url: str) -> Look:
    return lambda: reach(url)


async def fault_of(dependency: Dependency) -> str:
    """Why it does not answer; nothing if it does."""
    try:
        async with asyncio.timeout(PATIENCE):
            await dependency.look()
    except TimeoutError:
        return f"no answer within {PATIENCE:.0f} s"
    except Exception as error:  # noqa: BLE001 - whatever a library raises, it means the same here
        return str(error).strip() or type(error).__name__
    return ""


async def _reach_amqp(url: str) -> None:
    connection = await import_module("aio_pika").connect(url, timeout=PATIENCE)
    await connection.close()


async def _reach_redis(url: str) -> None:
    client = import_module("redis.asyncio").from_url(url)
    try:
        await client.ping()
    finally:
        await client.aclose()


async def _reach_blobs(url: str) -> None:
    from opilio.adapters.blobs import open_store  # noqa: PLC0415

    # Below a name that nobody uses: a bucket may hold millions of pages.
    await import_module("obstore").list_with_delimiter_async(open_store(url), prefix="opilio-is-it-there")


class Watch:
    """Looks now and then while somebody asks, beside whoever asks: a dead broker delays nobody."""

    def __init__(self, wanted: Sequence[Dependency], *, every: float = _EVERY) -> None:
        self._wanted = wanted
        self._every = every
        self._next = 0.0
        self._away: Mapping[str, str] = {}
        self._round: asyncio.Task[None] | None = None
        self.rounds = 0

    def away(self) -> Mapping[str, str]:
        """What did not answer when last looked for, and why."""
        if self._wanted and time.monotonic() >= self._next and (self._round is None or self._round.done()):
            self._round = asyncio.create_task(self.look())
        return self._away

    async def look(self) -> None:
        self.rounds += 1
        faults = await asyncio.gather(*(fault_of(dependency) for dependency in self._wanted))
        self._away = {
            dependency.key: fault for dependency, fault in zip(self._wanted, faults, strict=True) if fault
        }
        self._next = time.monotonic() + self._every

    async def close(self) -> None:
        if self._round is not None:
            self._round.cancel()
            await asyncio.gather(self._round, return_exceptions=True)
