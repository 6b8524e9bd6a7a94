"""Connections that go from one statement to the next as they are.

Nothing is ever set, locked or listened to on them beyond a transaction, so there is nothing to undo when one is given back. asyncpg's pool
makes a task, a timer and a proxy each time, which took a tenth of the API's processor time. docs/adr/0035-hot-connections.md
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

# The server's process of a connection keeps what it learnt of every table and its partitions.
_LONGEST_SECONDS = 1800.0
# After these nobody knows whether the server is still at the statement, or whether anybody hears what it answers.
_UNCERTAIN = (asyncio.CancelledError, TimeoutError, OSError)


class HotConnections:
    """At most so many; each is opened when it is needed, and the one that was used last is used next."""

    def __init__(
        self, connect: Callable[[], Awaitable[Any]], most: int, *, longest_seconds: float = _LONGEST_SECONDS
    ) -> None:
        self._connect = connect
        self._most = most
        self._longest_seconds = longest_seconds
        self._slots = asyncio.Semaphore(most)
        self._free: list[_Connection] = []
        self._closed = False

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[Any]:
        async with self._slots:
            taken = await self._take()
            try:
                yield taken.asyncpg
            except _UNCERTAIN:
                taken.asyncpg.terminate()
                raise
            finally:
                self._give_back(taken)

    async def close(self) -> None:
        """Once nobody uses them."""
        self._closed = True
        for _ in range(self._most):
            await self._slots.acquire()
        free, self._free = self._free, []
        await asyncio.gather(*(connection.asyncpg.close() for connection in free))
        for _ in range(self._most):
            self._slots.release()

    async def _take(self) -> "_Connection":
        if self._closed:
            raise asyncpg.InterfaceError("the connections are closed")
        while self._free:
            connection = self._free.pop()
            if not connection.asyncpg.is_closed():  # by a server that stopped, for one
                return connection
        return _Connection(await self._connect(), time.monotonic() + self._longest_seconds)

    def _give_back(self, connection: "_Connection") -> None:
        known = connection.asyncpg
        if known.is_closed():
            return
        if known.is_in_transaction() or time.monotonic() >= connection.until:
            known.terminate()
        else:
            self._free.append(connection)


class _Connection:
    __slots__ = ("asyncpg", "until")

    def __init__(self, connection: Any, until: float) -> None:
        self.asyncpg = connection
        self.until = until
