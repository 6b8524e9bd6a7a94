"""What a process remembers while row versions that were replaced cannot be removed.

Somebody's transaction that stays open, such as a backup, keeps every version that was replaced since. They gather in the indexes
that pulls read, and each pull would read all of them again. So, while that is slow, a process keeps what it read and begins
there: for two seconds, or for ten times as long as the reading took, at most 15 s. docs/adr/0026-dead-rows.md says what that may cost.
"""

import math
import time
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from opilio.adapters.postgres import Database, Row
from opilio.crawl.priority import QUEUES
from opilio.crawl.sql import QUERIES

T = TypeVar("T")

_MANY = 20_000
_SLOW_SECONDS = 0.02
_KEEP_SECONDS, _KEEP_TIMES, _KEEP_AT_MOST = 2.0, 10, 15.0
_SAMPLE = 2_000


@dataclass(frozen=True, slots=True)
class FirstJob:
    """Where the free jobs of a queue and priority begin."""

    queue: str
    priority: int
    job_id: UUID


class DeadRows:
    def __init__(self, database: Database) -> None:
        self._db = database
        self._first: dict[tuple[str, int], UUID] = {}  # in the order of priority; empty while reading is fast
        self._look_at = -math.inf
        self._looking = False
        self._locks: dict[str, set[UUID]] = {}
        self._count_at: dict[str, float] = {}
        self._held: dict[tuple[str, ...], tuple[float, list[Row]]] = {}

    # ── free jobs ────────────────────────────────────────────────────────────────────────────────

    async def first_jobs(self, queues: Sequence[str]) -> list[FirstJob]:
        """Where pulls of these queues begin, best priority first; nothing while all is well."""
        if time.monotonic() >= self._look_at and not self._looking:
            self._looking = True  # the other pulls go on with what is known
            try:
                self._look_at = await self._look()
            finally:
                self._looking = False
        return [FirstJob(*place, job_id) for place, job_id in self._first.items() if place[0] in queues]

    async def _look(self) -> float:
        """Looks where the free jobs begin, and answers when to look again."""
        if await self._db.value(QUERIES.dead_rows) < _MANY:
            self._forget()
            return time.monotonic() + _KEEP_SECONDS
        rows, took = await _timed(self._db.fetch(QUERIES.first_free, hot=True, queues=list(QUEUES)))
        if took < _SLOW_SECONDS:
            self._forget()
        else:
            self._first = {(row["queue"], row["priority"]): row["job_id"] for row in rows}
        return _keep_until(took)

    def _forget(self) -> None:
        for known in (self._first, self._locks, self._count_at, self._held):
            known.clear()

    def passed(self, locked: Iterable[Row]) -> None:
        """Free jobs that were locked in the order of the queue."""
        if not self._first:
            return
        for row in locked:
            place = row["queue"], row["priority"]
            if place in self._first:
                self._first[place] = max(self._first[place], row["job_id"])

    # ── locks of a bot ───────────────────────────────────────────────────────────────────────────

    async def count_locks(self, bots: Iterable[str]) -> dict[str, int] | None:
        """Locks of each bot, without those that other processes gave a moment ago; None while all is well."""
        if not self._first:
            return None
        wanted, now = list(bots), time.monotonic()
        known = {bot_id: set(self._locks.get(bot_id, ())) for bot_id in wanted}
        old = [bot_id for bot_id in wanted if now >= self._count_at.get(bot_id, -math.inf)]
        job_ids = [job_id for bot_id in set(wanted).difference(old) for job_id in known[bot_id]]
        rows = await self._db.fetch(QUERIES.locks_among, hot=True, job_ids=job_ids) if job_ids else []
        if old:
            read, took = await _timed(self._db.fetch(QUERIES.locks_of_bots, hot=True, bot_ids=old))
            rows = [*rows, *read]
            self._count_at |= dict.fromkeys(old, _keep_until(took))
        found: dict[str, set[UUID]] = {bot_id: set() for bot_id in wanted}
        for row in rows:
            if row["bot_id"] in found:  # a job may have gone to another bot
                found[row["bot_id"]].add(row["job_id"])
        for bot_id, jobs in found.items():
            given_since = self._locks.get(bot_id, set()) - known[bot_id]
            self._locks[bot_id] = jobs | given_since
        return {bot_id: len(jobs) for bot_id, jobs in found.items()}

    def gave(self, locked: Iterable[tuple[str, UUID]]) -> None:
        """Jobs that this process has locked for bots."""
        if not self._first:
            return
        for bot_id, job_id in locked:
            self._locks.setdefault(bot_id, set()).add(job_id)

    # ── locks of others ──────────────────────────────────────────────────────────────────────────

    async def held_elsewhere(self, queues: Sequence[str], now: datetime | None) -> list[Row] | None:
        """What held_elsewhere answered a moment ago; None while all is well."""
        if not self._first:
            return None
        until, rows = self._held.get(tuple(queues), (-math.inf, []))
        if time.monotonic() >= until:
            where = {"queues": list(queues), "host_ids": None, "most": _SAMPLE, "now": now}
            rows, took = await _timed(self._db.fetch(QUERIES.held_elsewhere, hot=True, **where))
            self._held[tuple(queues)] = _keep_until(took), rows
        return rows


async def _timed(reading: Awaitable[T]) -> tuple[T, float]:
    began = time.monotonic()
    return await reading, time.monotonic() - began


def _keep_until(took: float) -> float:
    return time.monotonic() + max(_KEEP_SECONDS, min(_KEEP_TIMES * took, _KEEP_AT_MOST))
