"""Checks whether RabbitMQ, Redis and object storage answer."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

from opilio.rabbitmq.faults import connection_fault
from opilio.runtime.service_faults import Fault, redis_fault, storage_fault
from opilio.runtime.settings import Settings

PATIENCE = 5.0
_EVERY = 10.0
Check = Callable[[], Awaitable[None]]
Explain = Callable[[BaseException, str], Fault]


@dataclass(frozen=True, slots=True)
class Dependency:
    """A configured service: its key in metrics and logs, its name, address, how to check it and to explain a fault."""

    key: str
    name: str
    url: str
    variable: str
    check: Check
    explain: Explain


def dependencies(settings: Settings) -> list[Dependency]:
    """The configured services; an embedded instance has none."""
    known: Sequence[tuple[str, str, str | None, str, Callable[[str], Awaitable[None]], Explain]] = (
        ("broker", "RabbitMQ", settings.amqp_url, "OPILIO_AMQP_URL", _reach_amqp, _explain_amqp),
        ("redis", "Redis", settings.redis_url, "OPILIO_REDIS_URL", _reach_redis, redis_fault),
        ("storage", "object storage", settings.blobs_url, "OPILIO_BLOBS_URL", _reach_blobs, storage_fault),
    )
    return [
        Dependency(key, name, url, variable, _check_of(reach, url), explain)
        for key, name, url, variable, reach, explain in known
        if url
    ]


def _check_of(reach: Callable[[str], Awaitable[None]], url: str) -> Check:
    return lambda: reach(url)


async def fault_of(dependency: Dependency) -> Fault | None:
    """Why the service cannot be used; None if it can."""
    try:
        async with asyncio.timeout(PATIENCE):
            await dependency.check()
    except TimeoutError:
        remedy = f"is the address in {dependency.variable} right, and does a firewall let it through?"
        return Fault(f"no answer within {PATIENCE:.0f} s", remedy)
    except Exception as error:  # noqa: BLE001 - whatever a library raises, it means the same here
        return dependency.explain(error, dependency.url)
    return None


async def _reach_amqp(url: str) -> None:
    connection = await import_module("aio_pika").connect(url, timeout=PATIENCE)
    await connection.close()


def _explain_amqp(error: BaseException, url: str) -> Fault:
    return Fault(*connection_fault(error, url))


async def _reach_redis(url: str) -> None:
    client = import_module("redis.asyncio").from_url(url)
    try:
        await client.ping()
    finally:
        await client.aclose()


async def _reach_blobs(url: str) -> None:
    from opilio.adapters.blobs import open_store  # noqa: PLC0415

    # Under a prefix that is never used: a bucket may hold millions of objects.
    await import_module("obstore").list_with_delimiter_async(
        open_store(url, retries=1), prefix="opilio-is-it-there"
    )


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
            dependency.key: fault.said
            for dependency, fault in zip(self._wanted, faults, strict=True)
            if fault
        }
        self._next = time.monotonic() + self._every

    async def close(self) -> None:
        if self._round is not None:
            self._round.cancel()
            await asyncio.gather(self._round, return_exceptions=True)
