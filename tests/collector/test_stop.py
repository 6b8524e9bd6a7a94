"""When the process stops, a round of the collector finishes or leaves nothing behind; its errors are counted."""

import asyncio
from collections.abc import Sequence

import pytest

from opilio import metrics
from opilio.adapters.local_bus import LocalBus
from opilio.bus import Outgoing, Unpublishable
from opilio.collector.collector import Collector
from opilio.contracts.projects import ProjectInput
from opilio.contracts.topology import topology
from opilio.errors import Unavailable
from tests.collector.world import QUICK, until

TASKS = 4  # two keywords on two platforms


class SlowBus(LocalBus):
    """A bus that keeps whoever publishes waiting, and may refuse to tell depths."""

    def __init__(self, *given, **more) -> None:
        super().__init__(*given, **more)
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()
        self.depth_fails = False

    async def publish_many(self, messages: Sequence[Outgoing]) -> list[Unpublishable | None]:
        self.asked.set()
        await self.go_on.wait()
        return await super().publish_many(messages)

    async def depth(self, queue: str) -> int:
        if self.depth_fails:
            raise Unavailable("the broker restarts")
        return await super().depth(queue)


@pytest.fixture
async def bus(database):
    bus = await SlowBus.connect(database, topology(QUICK.platforms))
    yield bus
    await bus.close()


async def started(database, bus: LocalBus, **options) -> tuple[Collector, asyncio.Event, asyncio.Task[None]]:
    collector, stop = Collector(database, bus, QUICK, watchdog_interval=0.02, **options), asyncio.Event()
    return collector, stop, asyncio.create_task(collector.run(stop))


async def counts(database) -> tuple[int, int]:
    """Tasks marked as sent, and messages in the queues of the crawlers."""
    async with database.session() as session:
        sent = await session.connection.fetchval("select count(*) from task where sent_at is not null")
        queued = await session.connection.fetchval(
            "select count(*) from bus_message where queue like 'crawler.%.queue'"
        )
    return sent, queued


async def project(collector: Collector) -> None:
    await collector.projects.create(ProjectInput(project_id="p1", brand_keywords=["one", "two"]), by="test")


async def test_a_round_under_way_is_finished(database, bus):
    collector, stop, run = await started(database, bus)
    await project(collector)
    await asyncio.wait_for(bus.asked.wait(), 20)
    stop.set()
    await asyncio.sleep(0)
    assert not run.done()
    assert await counts(database) == (0, 0)
    bus.go_on.set()
    await asyncio.wait_for(run, 20)
    assert await counts(database) == (TASKS, TASKS)


async def test_a_round_that_takes_too_long_is_rolled_back_and_done_by_the_next_process(database, bus):
    collector, stop, run = await started(database, bus, patience=0.05)
    await project(collector)
    await asyncio.wait_for(bus.asked.wait(), 20)
    stop.set()
    await asyncio.wait_for(run, 20)
    assert await counts(database) == (0, 0)
    bus.go_on.set()
    _, stop, run = await started(database, bus)

    async def sent() -> bool:
        return await counts(database) == (TASKS, TASKS)

    await until(sent)
    stop.set()
    await asyncio.wait_for(run, 20)
    assert await counts(database) == (TASKS, TASKS)


async def test_an_error_of_a_round_is_counted_and_the_next_round_comes(database, bus):
    errors, last_success = (
        metrics.LOOP_ERRORS.labels("watchdog"),
        metrics.LOOP_LAST_SUCCESS.labels("watchdog"),
    )
    bus.go_on.set()
    failed = errors._value.get()
    collector, stop, run = await started(database, bus)
    await project(collector)
    bus.depth_fails = True

    async def counted() -> bool:
        return errors._value.get() > failed

    await until(counted)
    succeeded = last_success._value.get()
    bus.depth_fails = False

    async def recovered() -> bool:
        return last_success._value.get() > succeeded

    await until(recovered)
    stop.set()
    await asyncio.wait_for(run, 20)
