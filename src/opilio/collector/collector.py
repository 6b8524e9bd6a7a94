"""Assembles the collector: its consumers and background loops."""

import asyncio
from collections.abc import Callable

from opilio.adapters.postgres import Database
from opilio.bus import Bus, Consumer
from opilio.collector.bounded_consumer import BoundedConsumer
from opilio.collector.config import Config
from opilio.collector.dispatch import Dispatch
from opilio.collector.intake import Intake
from opilio.collector.progress_reports import ProgressReporter, Report
from opilio.collector.projects import Projects
from opilio.collector.retention import ProjectRetention
from opilio.collector.send_tasks import CHANNEL, Sender
from opilio.collector.stalled_analysis import StalledAnalysis
from opilio.collector.state.heal import Heal
from opilio.collector.state.postgres import PostgresState
from opilio.collector.state.protocol import StateStore
from opilio.collector.watchdog import Watchdog
from opilio.contracts.topology import INBOUND_QUEUE, RESULTS_QUEUE
from opilio.loop import Loop, run_loops

_PREFETCH_INBOUND = 20
_HOUR = 3_600.0


def open_state(database: Database, redis_url: str | None) -> StateStore:
    """Redis if it is configured, else PostgreSQL."""
    if redis_url is None:
        return PostgresState(database)
    from opilio.collector.state.redis import RedisState  # noqa: PLC0415 - a deployment without Redis never needs it

    return RedisState.connect(redis_url, database)


def open_projects(
    database: Database,
    config: Config,
    redis_url: str | None = None,
    *,
    check_url: Callable[[str], object] | None = None,
) -> Projects:
    """For the API and the command line: needs no bus, because the collector role sends recorded tasks."""
    state = open_state(database, redis_url)
    return Projects(database, state, Dispatch(database, state, config, check_url=check_url))


class Collector:
    """The work of one collector process; safe to run concurrently."""

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
        patience: float = 10.0,
    ) -> None:
        """`patience` is how long a round may take to finish when the process stops, before it is rolled back."""
        self._patience = patience
        self._db = database
        self._bus = bus
        self.state = open_state(database, redis_url)
        self.dispatch = Dispatch(database, self.state, config, check_url=check_url)
        self.projects = Projects(database, self.state, self.dispatch)
        self.sender = Sender(database, bus, self.state, config)
        self.watchdog = Watchdog(database, bus, config)
        self.stalled = StalledAnalysis(database, bus, self.state, config)
        self.heal = Heal(database, self.state)
        self.progress = ProgressReporter(database, report)
        self.retention = ProjectRetention(database)
        progress = Loop("progress_reports", 1.0, self.progress.run_once, drain=True, pace=0.1)
        self.intake = Intake(database, self.state, config, changed=progress.wake)
        self._results = BoundedConsumer(bus, RESULTS_QUEUE, self.intake.handle)
        prefetch = Loop("results_prefetch", 2.0, self._results.adapt)
        self._results.on_growth = prefetch.wake
        self._loops = [
            prefetch,
            Loop(
                "send_tasks",
                5.0,
                self.sender.run_once,
                drain=True,
                wake_on=[CHANNEL],
                notifications=database,
            ),
            Loop("watchdog", watchdog_interval, self.watchdog.run_once, drain=True),
            progress,
            Loop("stalled_analysis", watchdog_interval, self.stalled.run_once),
            Loop("heal_states", watchdog_interval, self.heal.run_once),
            Loop("project_retention", _HOUR, self.retention.run_once, drain=True),
        ]

    async def run(self, stop: asyncio.Event) -> None:
        """Consumes and runs the background loops until `stop` is set; a running round is finished first or rolled back."""
        consumers: list[Consumer] = []
        try:
            consumers.append(
                await self._bus.consume(INBOUND_QUEUE, self.dispatch.handle, prefetch=_PREFETCH_INBOUND)
            )
            await self._results.start()
            consumers.append(self._results)
            await run_loops(self._loops, stop, patience=self._patience)
        finally:
            await asyncio.gather(*(consumer.close() for consumer in consumers), return_exceptions=True)

    async def close(self) -> None:
        await self.state.close()
