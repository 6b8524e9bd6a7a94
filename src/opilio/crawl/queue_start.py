"""Where the free jobs of a queue begin, so that pulls need not read past the jobs that were locked before.

The entries of locked jobs stay at the head of the index until vacuum removes them, a hundred thousand of them in a few seconds of full load,
and each pull would read past all of them. So, under load, a pull begins where this process locked its last job. Jobs that came before that
place meanwhile are seen by the next pull that begins at the head: at once where somebody says that there is work (NOTIFY), else a
twentieth of a second later. docs/adr/0034-where-a-queue-begins.md
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from opilio.adapters.postgres import Row
from opilio.crawl.dead_rows import FirstJob

_KEEP_SECONDS = 0.05
_BUSY_JOBS, _BUSY_SECONDS = 2_000, 1.0
_ABOVE_ALL, _NO_ID = 101, UUID(int=0)


def head(queue: str) -> FirstJob:
    """Before every job."""
    return FirstJob(queue, _ABOVE_ALL, _NO_ID)


@dataclass(frozen=True, slots=True)
class Starts:
    """Where one pull begins in each of its queues."""

    first: list[FirstJob]
    generation: int

    @property
    def all_at_head(self) -> bool:
        return all(first.priority == _ABOVE_ALL for first in self.first)


@dataclass(slots=True)
class _Queue:
    last: FirstJob | None = None
    until: float = 0.0
    jobs: int = 0
    counted_since: float = 0.0
    busy: bool = False

    def count(self, jobs: int, now: float) -> None:
        """Busy is who locked many jobs within the last second."""
        if now - self.counted_since >= _BUSY_SECONDS:
            self.busy = self.jobs >= _BUSY_JOBS and now - self.counted_since < 2 * _BUSY_SECONDS
            self.jobs, self.counted_since = 0, now
        self.jobs += jobs
        self.busy |= self.jobs >= _BUSY_JOBS


class QueueStarts:
    def __init__(self) -> None:
        self._queues: dict[str, _Queue] = {}
        self._generation = 0

    def forget(self) -> None:
        """Jobs may have come to any place: the next pull begins at the head."""
        self._generation += 1
        for queue in self._queues.values():
            queue.last = None

    def begin(self, queues: Sequence[str]) -> Starts:
        now = time.monotonic()
        return Starts([self._first(queue, now) for queue in queues], self._generation)

    def _first(self, name: str, now: float) -> FirstJob:
        queue = self._queues.get(name)
        if queue is None or queue.last is None or not queue.busy or now >= queue.until:
            return head(name)
        return queue.last

    def passed(self, starts: Starts, locked: Sequence[Row]) -> None:
        """Free jobs that were locked from these places on, in the order of the queue."""
        if starts.generation != self._generation or not locked:
            return
        now = time.monotonic()
        last_rows = {locked[-1]["queue"]: locked[-1]} if len(starts.first) == 1 else _last_rows(locked)
        for first in starts.first:
            row = last_rows.get(first.queue)
            if row is not None:
                self._pass(first, FirstJob(first.queue, row["priority"], row["job_id"]), len(locked), now)

    def _pass(self, first: FirstJob, last: FirstJob, jobs: int, now: float) -> None:
        queue = self._queues.setdefault(first.queue, _Queue())
        queue.count(jobs, now)
        if first.priority == _ABOVE_ALL:
            queue.last, queue.until = last, now + _KEEP_SECONDS
        elif queue.last is None or _comes_before(queue.last, last):  # answers may overtake each other
            queue.last = last


def _last_rows(locked: Sequence[Row]) -> Mapping[str, Row]:
    return {row["queue"]: row for row in locked}


def _comes_before(one: FirstJob, other: FirstJob) -> bool:
    return (-one.priority, one.job_id) < (-other.priority, other.job_id)
