"""Checks whether RabbitMQ, Redis and object storage answer."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

from opilio.runtime.settings import Settings

PATIENCE = 5.0
_EVERY = 10.0
Check = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Dependency:
    """A configured service: its key in metrics and logs, its name, address, setting, and how to check it."""

    key: str
    name: str
    url: str
    variable: str
    check: Check


def dependencies(settings: Settings) -> list[Dependency]:
    """The configured services; an embedded instance has none."""
    known: Sequence[tuple[str, str, str | None, str, Callable[[str], Awaitable[None]]]] = (
        ("broker", "RabbitMQ", settings.amqp_url, "OPILIO_AMQP_URL", _reach_amqp),
        ("redis", "Redis", settings.redis_url, "OPILIO_REDIS_URL", _reach_redis),
        ("storage", "object storage", settings.blobs_url, "OPILIO_BLOBS_URL", _reach_blobs),
    )
    return [
        Dependency(key, name, url, variable, _check_of(reach, url))
        for key, name, url, variable, reach in known
        if url
    ]


def _check_of(reach: Callable[[str], Awaitable[None]], url: str) -> Check:
    return lambda: reach(url)


async def fault_of(dependency: Dependency) -> str:
    """Why the service does not answer; empty if it does."""
    try:
        async with asyncio.timeout(PATIENCE):
            await dependency.check()
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

    # Under a prefix that is never used: a bucket may hold millions of objects.
    await import_module("obstore").list_with_delimiter_async(open_store(url), prefix="opilio-is-it-there")


class DependencyWatch:
    """Checks in the background while somebody asks, at most every few seconds; a dead service delays no caller."""

    def __init__(self, wanted: Sequence[Dependency], *, every: float = _EVERY) -> None:
        self._wanted = wanted
        self._every = every
        self._next = 0.0
        self._away: Mapping[str, str] = {}
        self._round: asyncio.Task[None] | None = None
        self.rounds = 0

    def away(self) -> Mapping[str, str]:
        """The services that did not answer at the last check, and why."""
        if self._wanted and time.monotonic() >= self._next and (self._round is None or self._round.done()):
            self._round = asyncio.create_task(self.check())
        return self._away

    async def check(self) -> None:
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
