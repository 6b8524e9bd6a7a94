"""How many matching jobs a pull passed over, for its answer: locked by other bots, or held back by politeness."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from opilio.adapters.postgres import Database, Row
from opilio.crawl.dead_rows import DeadRows
from opilio.crawl.sql import QUERIES

_MOST = 100
_SAMPLE = 200
_CROWDED_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Sample:
    """Locks by bot, as far as they were counted, and jobs that politeness holds back."""

    locks: Mapping[str, int]
    polite: int
    seen_at: float

    @property
    def held(self) -> int:
        return sum(self.locks.values())

    def of_others(self, bot_id: str) -> int:
        return self.polite + self.held - self.locks.get(bot_id, 0)


class SkippedJobs:
    def __init__(self, database: Database, dead_rows: DeadRows) -> None:
        self._db = database
        self._dead_rows = dead_rows
        self._seen: dict[tuple[str, ...], Sample] = {}

    async def count(
        self, bots: Iterable[str], queues: Sequence[str], domain: str | None, now: datetime | None
    ) -> dict[str, int]:
        """For each bot, up to a bound. That a fleet is beyond the bound is believed for a moment: it pulls often, and counting
        a hundred locks costs a tenth of a pull.
        """
        wanted = list(bots)
        if domain is None and self._is_crowded(wanted, queues):
            return dict.fromkeys(wanted, _MOST)
        return await self._count(wanted, queues, domain, now)

    def _is_crowded(self, bots: Sequence[str], queues: Sequence[str]) -> bool:
        seen = self._seen.get(tuple(queues))
        if seen is None or time.monotonic() >= seen.seen_at + _CROWDED_SECONDS:
            return False
        return all(seen.of_others(bot_id) >= _MOST for bot_id in bots)

    async def _count(
        self, bots: Sequence[str], queues: Sequence[str], domain: str | None, now: datetime | None
    ) -> dict[str, int]:
        where: dict[str, Any] = {"queues": list(queues), "host_ids": None}
        if domain is not None:
            hosts = await self._db.fetch(QUERIES.domain_hosts, domain=domain)
            where["host_ids"] = [row["host_id"] for row in hosts]
        known = None if domain else await self._dead_rows.held_elsewhere(queues, now)
        if known is not None:
            sample = _sample(known)
        else:
            read = self._db.fetch(QUERIES.held_elsewhere, hot=True, most=_SAMPLE, now=now, **where)
            sample = _sample(await read)
            if domain is None:
                self._seen[tuple(queues)] = sample
        skipped = {bot_id: sample.of_others(bot_id) for bot_id in bots}
        if sample.held >= _SAMPLE and known is None:  # its own locks may have filled the sample
            for bot_id in [bot_id for bot_id, count in skipped.items() if count < _MOST]:
                rows = await self._db.fetch(QUERIES.held_by_others, hot=True, bot_id=bot_id, **where)
                skipped[bot_id] = sample.polite + int(rows[0][0])
        return {bot_id: min(_MOST, count) for bot_id, count in skipped.items()}


def _sample(rows: Iterable[Row]) -> Sample:
    locks = {row["bot_id"]: row["jobs"] for row in rows}
    polite = locks.pop(None, 0)
    return Sample(locks, polite, time.monotonic())
