"""Time partitions of history tables: made ahead of time, dropped by age, never in the way of others.

Dropping a partition locks its parent for a moment, and whoever writes waits behind that lock. Each step is a
short transaction of its own that gives up after `LOCK_TIMEOUT` when a long query holds the table, and is tried
again; a partition that stays in use is left for the next round.
"""

import asyncio
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

import asyncpg

from opilio.adapters.postgres.pool import Database
from opilio.adapters.postgres.queries import Statement, parse_statement
from opilio.logs import get_logger

Unit: TypeAlias = Literal["day", "month"]
LOCK_TIMEOUT = timedelta(milliseconds=200)
TRIES, BETWEEN_TRIES = 5, timedelta(seconds=1)
_log = get_logger(__name__)
_STEP = {"day": timedelta(days=1), "month": timedelta(days=28)}  # no month is shorter, so none is skipped
_PREPARE = parse_statement("prepare_partition", "select opilio_partition(:table::text, :unit::text, :at)")
_EXISTS = parse_statement(
    "partition_exists",
    """select to_regclass(:table::text || to_char(date_trunc(:unit, :at::timestamptz, 'UTC') at time zone 'UTC', '_YYYYMMDD'))
       is not null""",
)
_LIST = parse_statement(
    "list_partitions",
    r"""select c.relname::text as name,
               (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'TO \(''([^'']+)''\)'))[1]::timestamptz as ends_at
        from pg_inherits i join pg_class c on c.oid = i.inhrelid
        where i.inhparent = (:table::text)::regclass
        order by 2 nulls last""",
)
_TIME_COLUMN = parse_statement(
    "partition_time_column", r"select substring(pg_get_partkeydef((:table::text)::regclass) from '\((\w+)\)')"
)
_MOST_ROWS = 5000


class Partitions:
    """The partitions of one history table."""

    def __init__(
        self,
        database: Database,
        table: str,
        unit: Unit,
        *,
        lock_timeout: timedelta = LOCK_TIMEOUT,
        between_tries: timedelta = BETWEEN_TRIES,
    ) -> None:
        self._db = database
        self._table = table
        self._unit: Unit = unit
        self._lock_timeout = lock_timeout
        self._between_tries = between_tries

    async def prepare(self, now: datetime, *, ahead: int = 3) -> int:
        """Makes the partitions that hold `now` and the next `ahead` units; answers how many were made."""
        made = 0
        for step in range(ahead + 1):
            place = {"table": self._table, "unit": self._unit, "at": now + step * _STEP[self._unit]}
            if not await self._db.value(_EXISTS, **place):
                made += await self._run(_PREPARE, **place)
        return made

    async def drop_before(self, before: datetime) -> list[str]:
        """Drops the partitions that ended before a time, and older rows that never had one; names what went."""
        rows = await self._db.fetch(_LIST, table=self._table)
        old = [row["name"] for row in rows if row["ends_at"] is not None and row["ends_at"] <= before]
        # A name cannot be a parameter; these come from the catalogue, quoted.
        dropped = [
            name
            for name in old
            if await self._run(Statement("drop_partition", f'drop table if exists "{name}"', ()))
        ]
        await self._delete_strays(before)
        return dropped

    async def _delete_strays(self, before: datetime) -> None:
        column = await self._db.value(_TIME_COLUMN, table=self._table)
        other = f'"{self._table}_other"'
        delete = Statement(
            "delete_strays",
            f'delete from {other} where ctid in (select ctid from {other} where "{column}" < $1 limit {_MOST_ROWS})',
            ("before",),
        )
        more = True
        while more:
            more = await self._db.execute(delete, before=before) == _MOST_ROWS

    async def _run(self, statement: Statement, **params: Any) -> bool:
        """Runs one step in its own transaction; False when the table stayed in use."""
        for attempt in range(1, TRIES + 1):
            try:
                async with self._db.transaction() as session:
                    milliseconds = int(self._lock_timeout.total_seconds() * 1000)
                    await session.connection.execute(f"set local lock_timeout = {milliseconds}")
                    await session.execute(statement, **params)
                    return True
            except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
                if attempt < TRIES:
                    await asyncio.sleep(self._between_tries.total_seconds())
        _log.warning("partitions.busy", table=self._table, tries=TRIES, remedy="it is tried again next round")
        return False
