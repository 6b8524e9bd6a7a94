"""What bots do, counted in memory and written every few seconds: figures for people, not exact."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import asyncpg

from opilio.adapters.postgres import Database
from opilio.crawl.sql import QUERIES
from opilio.logs import get_logger

_log = get_logger(__name__)


@dataclass(slots=True)
class _Hour:
    pulls: int = 0
    pulled: int = 0
    done: int = 0
    failed: int = 0
    late: int = 0
    seconds: float = 0.0


class BotActivity:
    def __init__(self, database: Database) -> None:
        self._db = database
        self._seen: dict[str, str] = {}
        self._known: dict[str, str] = {}
        self._hours: dict[tuple[str, int], _Hour] = {}

    def seen(self, bot_id: str, queues: Sequence[str]) -> bool:
        """Whether this process sees the bot for the first time, or with other capabilities than before."""
        capabilities = ",".join(queues)
        self._seen[bot_id] = capabilities
        changed = self._known.get(bot_id) != capabilities
        self._known[bot_id] = capabilities
        return changed

    def pulled(self, bot_id: str, jobs: int) -> None:
        hour = self._hour(bot_id)
        hour.pulls += 1
        hour.pulled += jobs

    def done(self, bot_id: str, jobs: int, seconds: float) -> None:
        hour = self._hour(bot_id)
        hour.done += jobs
        hour.seconds += seconds

    def failed(self, bot_id: str) -> None:
        self._hour(bot_id).failed += 1

    def late(self, bot_id: str) -> None:
        self._hour(bot_id).late += 1

    def _hour(self, bot_id: str) -> _Hour:
        key = (bot_id, int(time.time() // 3600))
        hour = self._hours.get(key)
        if hour is None:
            hour = self._hours[key] = _Hour()
        return hour

    async def write(self) -> None:
        """Writes the counts and clears them; what cannot be written now is tried again next time."""
        seen, hours = self._seen, self._hours
        self._seen, self._hours = {}, {}
        if not seen and not hours:
            return
        try:
            await self._write(seen, hours)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            _log.warning("bot activity could not be written", error=str(error))
            self._seen = seen | self._seen
            for key, hour in self._hours.items():
                if key in hours:
                    hours[key] = _add(hours[key], hour)
                else:
                    hours[key] = hour
            self._hours = hours

    async def _write(self, seen: dict[str, str], hours: dict[tuple[str, int], _Hour]) -> None:
        async with self._db.transaction() as session:
            if seen:
                await session.execute(
                    QUERIES.see_bots, bot_ids=list(seen), capabilities=list(seen.values()), now=None
                )
            if hours:
                counted = list(hours.values())
                await session.execute(
                    QUERIES.add_activity,
                    bot_ids=[bot_id for bot_id, _ in hours],
                    hours=[datetime.fromtimestamp(hour * 3600, UTC) for _, hour in hours],
                    pulls=[h.pulls for h in counted],
                    pulled=[h.pulled for h in counted],
                    done=[h.done for h in counted],
                    failed=[h.failed for h in counted],
                    late=[h.late for h in counted],
                    durations=[h.seconds for h in counted],
                )


def _add(one: _Hour, two: _Hour) -> _Hour:
    return _Hour(
        one.pulls + two.pulls,
        one.pulled + two.pulled,
        one.done + two.done,
        one.failed + two.failed,
        one.late + two.late,
        one.seconds + two.seconds,
    )
