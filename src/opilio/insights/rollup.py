"""Keeps one row of figures for each minute, so that a chart costs the same however many jobs ended."""

import asyncio
from datetime import datetime, timedelta

import asyncpg

from opilio.adapters.postgres import Database, load_queries
from opilio.insights.dashboard import Figures
from opilio.logs import get_logger

_Q = load_queries("opilio.insights")
_log = get_logger(__name__)
_MINUTE = timedelta(minutes=1)
# A transaction that began in a minute may end after it: the last minutes are counted again.
_COUNT_AGAIN = timedelta(minutes=3)
_LOOK_BACK = timedelta(hours=24)
_KEEP = timedelta(days=31)


class Rollup:
    """Safe to run concurrently: a minute that two processes count gets the same figures."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._figures = Figures(database)

    async def run_once(self) -> int:
        """Counts the minutes that are over; answers how many."""
        row = await self._db.row(_Q.newest_minute)
        assert row is not None
        first, until = _span(row["newest"], row["now"])
        system_status = await self._figures.system_status()
        count = await self._db.execute(
            _Q.roll_up,
            first=first,
            until=until,
            pending=system_status.pending,
            locked=system_status.locked,
            due=system_status.due,
            bots_alive=system_status.bots_alive,
        )
        await self._db.execute(_Q.forget_minutes, keep=_KEEP)
        return count

    async def run(self) -> None:
        """Every minute, for as long as the process serves."""
        while True:
            try:
                await self.run_once()
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                _log.warning("the minute's figures could not be kept", error=str(error))
            await asyncio.sleep(60)


def _span(newest: datetime | None, now: datetime) -> tuple[datetime, datetime]:
    """From where to count, and up to where: after an absence, a day back at most."""
    oldest = now - _LOOK_BACK
    first = oldest if newest is None else max(oldest, newest + _MINUTE - _COUNT_AGAIN)
    return min(first, now - _COUNT_AGAIN), now
