"""Extends the locks of long crawls, many jobs in one request."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID

from opilio.bot.errors import NotAllowed, Refused
from opilio.contracts.bot_api import ItemAnswer, PulledJob

Beat = Callable[[list[PulledJob]], Awaitable[list[ItemAnswer]]]
Lost = Callable[[PulledJob, str], None]
log = logging.getLogger("opilio.bot")

_MOST_ITEMS = 100
# A lock survives two lost heartbeats.
_SHARE_OF_TTL = 1 / 3
# Locks that are nearly due are sent along, so that jobs pulled together stay in one request.
_EARLY = 0.25


@dataclass(eq=False, slots=True)
class _Held:
    job: PulledJob
    due: float

    @property
    def interval(self) -> float:
        return self.job.timeout_seconds * _SHARE_OF_TTL


class Heartbeats:
    """Sends a heartbeat for every held job after a third of its lock's TTL; reports lost locks."""

    def __init__(self, beat: Beat, lost: Lost) -> None:
        self._beat = beat
        self._lost = lost
        self._held: dict[UUID, _Held] = {}
        self._next = float("inf")
        self._earlier = asyncio.Event()

    def hold(self, job: PulledJob) -> None:
        held = _Held(job, 0)
        held.due = _now() + held.interval
        self._held[job.lock_token] = held
        if held.due < self._next:
            self._earlier.set()

    def drop(self, job: PulledJob) -> None:
        self._held.pop(job.lock_token, None)

    async def run(self) -> None:
        while True:
            await self._until_due()
            await self._beat_for(self._due())

    async def _until_due(self) -> None:
        """Sleeps until the first heartbeat is due; a new lock with a shorter TTL wakes it."""
        while True:
            self._earlier.clear()
            self._next = min((held.due for held in self._held.values()), default=float("inf"))
            pause = self._next - _now()
            if pause <= 0:
                return
            try:
                async with asyncio.timeout(pause if pause != float("inf") else None):
                    await self._earlier.wait()
            except TimeoutError:
                return

    def _due(self) -> list[_Held]:
        now = _now()
        return [held for held in self._held.values() if held.due <= now + held.interval * _EARLY]

    async def _beat_for(self, due: list[_Held]) -> None:
        for held in due:
            held.due = _now() + held.interval
        for start in range(0, len(due), _MOST_ITEMS):
            jobs = [held.job for held in due[start : start + _MOST_ITEMS]]
            try:
                answers = await self._beat(jobs)
            except NotAllowed:
                raise
            except Refused as refusal:
                log.warning("the heartbeat of %d jobs was refused: %s", len(jobs), refusal)
                continue
            for job, answer in zip(jobs, answers, strict=False):
                self._take(job, answer)

    def _take(self, job: PulledJob, answer: ItemAnswer) -> None:
        if answer.success or job.lock_token not in self._held:
            return
        code = answer.error.get("code", "unknown") if isinstance(answer.error, dict) else "unknown"
        self.drop(job)
        self._lost(job, code)


def _now() -> float:
    return asyncio.get_running_loop().time()
