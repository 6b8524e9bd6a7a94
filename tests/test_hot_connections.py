"""Connections that go from one statement to the next as they are."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from opilio.adapters.postgres.hot_connections import HotConnections

PID = "select pg_backend_pid()"
SLEEPS = "select exists (select 1 from pg_stat_activity where pid = $1 and wait_event = 'PgSleep')"


@pytest.fixture
async def connections(database_url: str) -> AsyncIterator[HotConnections]:
    connections = HotConnections(lambda: asyncpg.connect(database_url), 2)
    yield connections
    await connections.close()


async def pid(connections: HotConnections) -> int:
    async with connections.acquire() as connection:
        found: int = await connection.fetchval(PID)
        return found


async def test_it_works(connections: HotConnections) -> None:
    first = await pid(connections)
    assert await pid(connections) == first
    async with connections.acquire() as one, connections.acquire() as other:
        assert {await one.fetchval(PID), await other.fetchval(PID)} > {first}


async def test_whoever_comes_when_all_are_taken_waits(connections: HotConnections) -> None:
    async with connections.acquire(), connections.acquire():
        third = asyncio.create_task(pid(connections))
        await asyncio.sleep(0)
        assert not third.done()
    assert await third


async def test_a_statement_that_fails_costs_no_connection(connections: HotConnections) -> None:
    first = await pid(connections)
    for statement, argument in (("select 1 / $1::int", 0), ("select $1::int", "no number")):
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError)):
            async with connections.acquire() as connection:
                await connection.fetchval(statement, argument)
    assert await pid(connections) == first


async def test_a_statement_that_was_left_is_heard_by_nobody_else(
    connections: HotConnections, database_url: str
) -> None:
    first = await pid(connections)

    async def long() -> None:
        async with connections.acquire() as connection:
            await connection.fetchval("select pg_sleep(60)")

    left = asyncio.create_task(long())
    other = await asyncpg.connect(database_url)
    async with asyncio.timeout(20):
        while not await other.fetchval(SLEEPS, first):
            await asyncio.sleep(0.01)
    await other.close()
    left.cancel()
    with pytest.raises(asyncio.CancelledError):
        await left
    assert await pid(connections) != first


async def test_a_transaction_that_was_left_open_is_not_passed_on(connections: HotConnections) -> None:
    async with connections.acquire() as connection:
        first = await connection.fetchval(PID)
        await connection.execute("begin")
    async with connections.acquire() as connection:
        assert await connection.fetchval(PID) != first
        assert not connection.is_in_transaction()


async def test_a_connection_that_the_server_closed_is_replaced(
    connections: HotConnections, database_url: str
) -> None:
    first = await pid(connections)
    other = await asyncpg.connect(database_url)
    await other.fetchval("select pg_terminate_backend($1, 5000)", first)
    await other.close()
    async with connections.acquire() as connection:
        assert await connection.fetchval(PID) != first


async def test_a_server_that_does_not_answer_takes_no_place(database_url: str) -> None:
    answers = False

    async def connect() -> asyncpg.Connection:
        if not answers:
            raise ConnectionRefusedError
        return await asyncpg.connect(database_url)

    connections = HotConnections(connect, 1)
    for _ in range(3):
        with pytest.raises(ConnectionRefusedError):
            await pid(connections)
    answers = True
    assert await pid(connections)
    await connections.close()


async def test_an_old_connection_is_replaced(database_url: str) -> None:
    connections = HotConnections(lambda: asyncpg.connect(database_url), 1, longest_seconds=0)
    assert await pid(connections) != await pid(connections)
    await connections.close()


async def test_closing_waits_for_those_in_use(database_url: str) -> None:
    connections = HotConnections(lambda: asyncpg.connect(database_url), 2)
    async with connections.acquire() as connection:
        closing = asyncio.create_task(connections.close())
        await asyncio.sleep(0)
        assert await connection.fetchval("select 1") == 1
        assert not closing.done()
    await closing
    assert connection.is_closed()
    with pytest.raises(asyncpg.InterfaceError):
        await pid(connections)
