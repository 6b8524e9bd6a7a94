"""Background work with one shape: tick, do one round, say what it did, sleep; never die of an error."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import timedelta
from typing import TypeAlias

import structlog

from opilio import metrics
from opilio.backoff import doubling

Counts: TypeAlias = Mapping[str, int]
Work: TypeAlias = Callable[[], Awaitable[Counts]]

_log = structlog.get_logger(__name__)
_LONGEST_PAUSE = timedelta(minutes=1)


class Loop:
    """Does `work` every `interval` seconds, at once when woken, and again after a pause when it failed."""

    def __init__(self, name: str, interval: float, work: Work) -> None:
        if interval <= 0:
            raise ValueError(f"the loop {name} needs an interval above 0")
        self.name = name
        self.interval = interval
        self._work = work
        self._woken = asyncio.Event()
        self._stopped = False
        self._failures = 0
        self._rounds = asyncio.Condition()
        self.rounds = 0

    def wake(self) -> None:
        """Makes the next round begin now."""
        self._woken.set()

    def stop(self) -> None:
        """Lets the round under way finish; none begins after it."""
        self._stopped = True
        self.wake()

    async def run(self) -> None:
        while not self._stopped:
            self._woken.clear()
            await self.run_once()
            await self._told()
            await self._sleep()

    async def run_once(self) -> Counts | None:
        """One round; None if it failed."""
        began = time.monotonic()
        metrics.LOOP_RUNS.labels(self.name).inc()
        try:
            counts = await self._work()
        except Exception:  # noqa: BLE001 - whatever it was, the next round may do better
            self._failures += 1
            metrics.LOOP_ERRORS.labels(self.name).inc()
            _log.exception("loop.failed", loop=self.name, failures=self._failures, again_in=self.pause)
            return None
        self._failures = 0
        metrics.LOOP_LAST_SUCCESS.labels(self.name).set_to_current_time()
        if any(counts.values()):
            _log.info("loop.done", loop=self.name, seconds=round(time.monotonic() - began, 3), **counts)
        return counts

    @property
    def pause(self) -> float:
        """Until the next round: the interval, or after failures a wait that doubles."""
        if not self._failures:
            return self.interval
        return max(
            self.interval, doubling(timedelta(seconds=1), self._failures, _LONGEST_PAUSE).total_seconds()
        )

    async def after(self, rounds: int) -> None:
        """Waits until so many rounds have ended."""
        async with self._rounds:
            await self._rounds.wait_for(lambda: self.rounds >= rounds)

    async def _told(self) -> None:
        async with self._rounds:
            self.rounds += 1
            self._rounds.notify_all()

    async def _sleep(self) -> None:
        try:
            async with asyncio.timeout(self.pause):
                await self._woken.wait()
        except TimeoutError:
            return


async def run_loops(loops: Iterable[Loop], stop: asyncio.Event, *, patience: float = 10) -> None:
    """Runs loops side by side until told to stop; a round that does not end in time is cancelled."""
    loops = list(loops)
    tasks = [asyncio.create_task(loop.run(), name=f"loop:{loop.name}") for loop in loops]
    await stop.wait()
    for loop in loops:
        loop.stop()
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=patience)
    for task in late:
        _log.warning("loop.cancelled", task=task.get_name(), patience=patience)
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
