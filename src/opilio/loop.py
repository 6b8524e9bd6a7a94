"""Background work of one shape: run a round, count what it did, wait, repeat; an error never ends it."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Protocol, TypeAlias

from opilio import metrics
from opilio.backoff import doubling
from opilio.logs import get_logger

Counts: TypeAlias = Mapping[str, int]
Work: TypeAlias = Callable[[], Awaitable[Counts]]
NextDue: TypeAlias = Callable[[], Awaitable[float | None]]

_log = get_logger(__name__)
_FIRST_PAUSE, _LONGEST_PAUSE = timedelta(seconds=0.2), timedelta(seconds=30)
_SHORTEST_WAIT = 0.01
_LOG_FIELDS = frozenset({"event", "loop", "seconds"})


class Subscription(Protocol):
    """A registration that can be ended."""

    async def close(self) -> None: ...


class Notifications(Protocol):
    """Whoever passes NOTIFY on: the database."""

    async def listen(self, channels: Sequence[str], heard: Callable[[str, str], None]) -> Subscription: ...


class Loop:
    """Runs `work` every `interval` seconds, sooner when woken, and after a growing pause when it failed.

    drain          the next round begins at once while rounds find work
    pace           least seconds between two rounds
    next_due       asked after a round without work: seconds until the next one is known to have some
    wake_on        channels of `notifications` that wake the loop; the interval covers a missed notification
    """

    def __init__(
        self,
        name: str,
        interval: float,
        work: Work,
        *,
        drain: bool = False,
        pace: float = 0.0,
        next_due: NextDue | None = None,
        wake_on: Sequence[str] = (),
        notifications: Notifications | None = None,
    ) -> None:
        if interval <= 0:
            raise ValueError(f"the loop {name} needs an interval above 0")
        if pace < 0:
            raise ValueError(f"the loop {name} needs a pace of 0 or more")
        if bool(wake_on) != (notifications is not None):
            raise ValueError(f"the loop {name} needs both wake_on and notifications, or neither")
        self.name = name
        self.interval = interval
        self._work = work
        self._drain = drain
        self._pace = pace
        self._next_due = next_due
        self._wake_on = wake_on
        self._notifications = notifications
        self._woken = asyncio.Event()
        self._stopped = asyncio.Event()
        self._failures = 0
        self._due_in: float | None = None
        self._round_ended = asyncio.Condition()
        self.rounds = 0

    def wake(self) -> None:
        """Makes the next round begin now; a pause after a failure is kept."""
        self._woken.set()

    def stop(self) -> None:
        """Lets the current round finish; none begins after it."""
        self._stopped.set()
        self._woken.set()

    async def run(self) -> None:
        """Until stopped."""
        subscription = await self._subscribe()
        try:
            while not self._stopped.is_set():
                self._woken.clear()
                counts = await self.run_once()
                await self._count_round()
                if not self._stopped.is_set():
                    await self._wait(counts)
        finally:
            if subscription is not None:
                await subscription.close()

    async def run_once(self) -> Counts | None:
        """Runs one round; None if it failed."""
        began = time.monotonic()
        metrics.LOOP_RUNS.labels(self.name).inc()
        try:
            counts = await self._work()
            worked = any(counts.values())
            self._due_in = await self._next_due() if self._next_due and not worked else None
        except Exception:  # noqa: BLE001 - whatever it was, the next round may succeed
            self._failures += 1
            metrics.LOOP_ERRORS.labels(self.name).inc()
            _log.exception("loop.failed", loop=self.name, failures=self._failures, again_in=self.pause)
            return None
        self._failures = 0
        metrics.LOOP_LAST_SUCCESS.labels(self.name).set_to_current_time()
        if worked:
            log = _log.debug if self._drain else _log.info
            named = {
                f"{name}_count" if name in _LOG_FIELDS else name: count for name, count in counts.items()
            }
            log("loop.done", loop=self.name, seconds=round(time.monotonic() - began, 3), **named)
        return counts

    @property
    def pause(self) -> float:
        """Seconds until the next round: the interval, or after failures a pause that doubles."""
        if not self._failures:
            return self.interval
        return doubling(_FIRST_PAUSE, self._failures, _LONGEST_PAUSE).total_seconds()

    async def after(self, rounds: int) -> None:
        """Waits until so many rounds have ended."""
        async with self._round_ended:
            await self._round_ended.wait_for(lambda: self.rounds >= rounds)

    async def _subscribe(self) -> Subscription | None:
        if self._notifications is None:
            return None
        return await self._notifications.listen(self._wake_on, lambda _channel, _payload: self.wake())

    async def _count_round(self) -> None:
        async with self._round_ended:
            self.rounds += 1
            self._round_ended.notify_all()

    async def _wait(self, counts: Counts | None) -> None:
        if counts is None:
            await wait_for(self._stopped, self.pause)
            return
        if self._pace:
            await wait_for(self._stopped, self._pace)
        if self._drain and any(counts.values()):
            await asyncio.sleep(0)
            return
        due = self.interval if self._due_in is None else max(self._due_in, _SHORTEST_WAIT)
        await wait_for(self._woken, min(due, self.interval))


async def wait_for(event: asyncio.Event, seconds: float) -> bool:
    """Waits for an event; False when the time ran out first."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


async def run_loops(loops: Iterable[Loop], stop: asyncio.Event, *, patience: float = 10) -> None:
    """Runs loops side by side until `stop` is set; a round that does not end in time is cancelled."""
    loops = list(loops)
    tasks = [asyncio.create_task(loop.run(), name=f"loop:{loop.name}") for loop in loops]
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([stopped, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for loop in loops:
            loop.stop()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=patience)
            for task in late:
                _log.warning("loop.cancelled", task=task.get_name(), patience=patience)
    finally:
        stopped.cancel()
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in ended:
        if isinstance(outcome, Exception):
            raise outcome


async def drain(work: Work) -> int:
    """Runs rounds until one finds nothing to do; the sum of what they did."""
    total = 0
    while done := sum((await work()).values()):
        total += done
    return total
