"""The partitions of a history table: made ahead, dropped by age, and never in the way of those who write."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

from opilio.adapters.postgres import Database
from opilio.adapters.postgres.partitions import Partitions

NOW = datetime(2031, 5, 17, 12, tzinfo=UTC)


def attempts(database: Database) -> Partitions:
    return Partitions(database, "webhook_attempt", "day", between_tries=timedelta(milliseconds=50))


async def _names(database: Database) -> list[str]:
    async with database.session() as session:
        rows = await session.connection.fetch(
            "select relname from pg_class where relname like 'webhook_attempt_2031%' and relkind = 'r' order by 1"
        )
    return [row["relname"] for row in rows]


async def test_days_are_made_ahead_once_and_dropped_when_they_are_over(database):
    partitions = attempts(database)
    assert await partitions.prepare(NOW) == 4
    assert await partitions.prepare(NOW) == 0
    names = await _names(database)
    assert names == [f"webhook_attempt_203105{day}" for day in (17, 18, 19, 20)]
    dropped = await partitions.drop_before(NOW + timedelta(days=2))
    assert [name for name in dropped if "2031" in name] == names[:2]
    assert await _names(database) == names[2:]


async def test_a_month_is_never_skipped(database):
    partitions = Partitions(database, "result", "month")
    await partitions.prepare(datetime(2032, 1, 31, tzinfo=UTC), ahead=2)
    async with database.session() as session:
        rows = await session.connection.fetch(
            "select relname from pg_class where relname like 'result_2032%' and relkind = 'r' order by 1"
        )
    assert [row["relname"] for row in rows] == ["result_20320101", "result_20320201", "result_20320301"]


async def test_a_row_whose_day_had_no_partition_is_dropped_by_age(database):
    async with database.session() as session:
        await session.connection.execute(
            """insert into webhook_attempt (endpoint_id, delivery_id, webhook_id, type, attempt, at, latency_ms, outcome)
               select opilio_uuid7(), n, 'w', 't', 1, '2019-01-01', 1, 'dead' from generate_series(1, 5001) n"""
        )
        await attempts(database).drop_before(NOW)
        assert await session.connection.fetchval("select count(*) from webhook_attempt_other") == 0


async def test_a_long_query_blocks_no_writes_while_history_is_dropped(database):
    """Dropping waits for the query at most its lock timeout at a time; writers go on in between."""
    partitions = attempts(database)
    await partitions.prepare(NOW)
    async with database.transaction() as reader:
        await reader.connection.fetch("select count(*) from webhook_attempt")  # a report that takes long
        dropping = asyncio.create_task(partitions.drop_before(NOW + timedelta(days=9)))
        slowest = 0.0
        async with database.session() as writer:
            while not dropping.done():
                began = time.monotonic()
                await writer.connection.execute(
                    """insert into webhook_attempt (endpoint_id, delivery_id, webhook_id, type, attempt, at, latency_ms, outcome)
                       values (opilio_uuid7(), 1, 'w', 't', 1, '2031-05-17', 1, 'dead')"""
                )
                slowest = max(slowest, time.monotonic() - began)
        assert [name for name in await dropping if "2031" in name] == []
        assert slowest < 1.5
    await partitions.drop_before(NOW + timedelta(days=9))
    assert await _names(database) == []
