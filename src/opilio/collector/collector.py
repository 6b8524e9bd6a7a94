"""The collector, assembled: what its role runs, and what the API and the command line ask of it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import structlog

from opilio.adapters.postgres import Database
from opilio.bus import Bus
from opilio.collector.config import Config
from opilio.collector.dispatch import Dispatch
from opilio.collector.intake import Intake
from opilio.collector.progress_reports import Report, Telling
from opilio.collector.projects import Projects
from opilio.collector.retention import Forgetting
from opilio.collector.send_tasks import CHANNEL, Sender
from opilio.collector.state.postgres import PostgresState
from opilio.collector.state.protocol import StateStore
from opilio.collector.watchdog import Watchdog
from opilio.contracts.topology import INBOUND_QUEUE, RESULTS_QUEUE

log = structlog.get_logger(__name__)
Work: TypeAlias = Callable[[], Awaitable[Mapping[str, int]]]
_PREFETCH_RESULTS, _PREFETCH_INBOUND = 1_000, 20
_LONGEST_TROUBLE = 30.0


def open_state(database: Database, redis_url: str | None) -> StateStore:
    """Redis where there is one, else PostgreSQL."""
    if redis_url is None:
        return PostgresState(database)
    from opilio.collector.state.redis import RedisState  # noqa: PLC0415 - a deployment without Redis never needs it

    return RedisState.connect(redis_url)


def open_projects(
    database: Database,
    config: Config,
    redis_url: str | None = None,
    *,
    check_url: Callable[[str], object] | None = None,
) -> Projects:
    """What the API and the command line need: no bus, because a recorded task is sent by the collector's role."""
    state = open_state(database, redis_url)
    return Projects(state, Dispatch(database, state, config, check_url=check_url))


@dataclass(slots=True)
class Round:
    """Work that is done again and again: at once when woken, else after `interval` seconds; `pace` is the least."""

    name: str
    work: Work
    interval: float
    woken: asyncio.Event
    pace: float = 0.0

    async def run(self) -> None:
        trouble = 0
        while True:
            self.woken.clear()
            try:
                more = any((await self.work()).values())
                trouble = 0
            except Exception:
                trouble += 1
                log.exception("collector.round_failed", round=self.name, failures=trouble)
                await asyncio.sleep(min(0.2 * 2**trouble, _LONGEST_TROUBLE))
                continue
            if self.pace:
                await asyncio.sleep(self.pace)
            if not more:
                await self._sleep()

    async def _sleep(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self.interval):
                await self.woken.wait()


class Collector:
    """One process's share of the work: any number of them may run side by side."""

    def __init__(
        self,
        database: Database,
        bus: Bus,
        config: Config,
        *,
        redis_url: str | None = None,
        report: Report | None = None,
        check_url: Callable[[str], object] | None = None,
        watchdog_interval: float = 5.0,
    ) -> None:
        self._db = database
        self._bus = bus
        self.state = open_state(database, redis_url)
        self.dispatch = Dispatch(database, self.state, config, check_url=check_url)
        self.projects = Projects(self.state, self.dispatch)
        changed, unsent = asyncio.Event(), asyncio.Event()
        self.intake = Intake(database, self.state, config, changed=changed.set)
        self.sender = Sender(database, bus, self.state, self.dispatch, config)
        self.watchdog = Watchdog(database, bus, config)
        self.telling = Telling(database, self.state, report)
        self.forgetting = Forgetting(database, self.state)
        self._unsent = unsent
        self.rounds = [
            Round("sender", self.sender.run_once, 5.0, unsent),
            Round("watchdog", self.watchdog.run_once, watchdog_interval, asyncio.Event()),
            Round("telling", self.telling.run_once, 1.0, changed, pace=0.1),
            Round("forgetting", self.forgetting.run_once, 3_600.0, asyncio.Event()),
        ]

    async def run(self, stop: asyncio.Event) -> None:
        """Consumes and does its rounds until told to stop; what is under way is finished first."""
        listener = await self._db.listen([CHANNEL], lambda _channel, _payload: self._unsent.set())
        consumers: list[Any] = []
        tasks = [asyncio.create_task(round_.run(), name=round_.name) for round_ in self.rounds]
        try:
            consumers.append(
                await self._bus.consume(INBOUND_QUEUE, self.dispatch.handle, prefetch=_PREFETCH_INBOUND)
            )
            consumers.append(
                await self._bus.consume(RESULTS_QUEUE, self.intake.handle, prefetch=_PREFETCH_RESULTS)
            )
            await stop.wait()
        finally:
            await asyncio.gather(*(consumer.close() for consumer in consumers), return_exceptions=True)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await listener.close()

    async def close(self) -> None:
        await self.state.close()
