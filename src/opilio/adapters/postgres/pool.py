"""Connections: some for the hot path with pinned plans, a pool for everything else."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, TypeVar

import asyncpg
import msgspec

from opilio.adapters.postgres.database_url import parse_database_url
from opilio.adapters.postgres.hot_connections import HotConnections
from opilio.adapters.postgres.listener import Heard, Listener, Subscription
from opilio.adapters.postgres.queries import Statement
from opilio.adapters.postgres.shared_values import share_values
from opilio.bounded_json import decode_stored
from opilio.errors import Unavailable
from opilio.net.mask_url import mask_url

T = TypeVar("T")
Row: TypeAlias = asyncpg.Record

# A queue table holds 0 rows one minute and a million the next, so its statistics are always wrong:
# the hot path's statements are written for index scans and nested loops, and are held to them.
PINNED_PLANS = {
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
}
_SETTINGS = {"idle_in_transaction_session_timeout": "30s"}
_UPKEEP_SECONDS = 600.0


class ChangedMeanwhileError(Exception):
    """What a transaction has read is not so any more: it is undone and begins again."""


_RETRYABLE = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError, ChangedMeanwhileError)


class Session:
    """Runs named statements on one connection."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def transaction(self) -> Any:
        """For work that began without one."""
        return self.connection.transaction()

    async def fetch(self, statement: Statement, **params: Any) -> list[Row]:
        rows: list[Row] = await self.connection.fetch(statement.sql, *statement.bind(params))
        return rows

    async def row(self, statement: Statement, **params: Any) -> Row | None:
        return await self.connection.fetchrow(statement.sql, *statement.bind(params))

    async def value(self, statement: Statement, **params: Any) -> Any:
        return await self.connection.fetchval(statement.sql, *statement.bind(params))

    async def execute(self, statement: Statement, **params: Any) -> int:
        """Runs a statement and answers how many rows it touched."""
        return await self._execute(statement, params)

    async def execute_long(self, statement: Statement, **params: Any) -> int:
        """The same for upkeep over many rows, which may take minutes."""
        return await self._execute(statement, params, timeout=_UPKEEP_SECONDS)

    async def _execute(self, statement: Statement, params: dict[str, Any], **options: float) -> int:
        tag: str = await self.connection.execute(statement.sql, *statement.bind(params), **options)
        last = tag.rsplit(" ", 1)[-1]
        return int(last) if last.isdigit() else 0


class Database:
    """The connections, and statements run outside a transaction."""

    def __init__(self, main: asyncpg.Pool, hot: HotConnections, url: str, *, pooled: bool = False) -> None:
        self._main = main
        self._hot = hot
        self._pooled = pooled
        self.url = url
        self._listener = Listener(url)

    @classmethod
    async def connect(
        cls,
        url: str,
        *,
        pooled_url: str | None = None,
        size: int = 8,
        hot_size: int = 4,
        name: str = "opilio",
    ) -> "Database":
        """Opens the pools; `name` is shown in pg_stat_activity, by which `opilio doctor` finds the running roles.

        `pooled_url` leads to the same database through a transaction pooler such as PgBouncer: most work goes there.
        The hot path (its planner settings are set at the start of a connection), LISTEN and locks stay on `url`.
        """

        def arguments(through: str, settings: dict[str, str]) -> dict[str, Any]:
            known = parse_database_url(through).arguments(name)
            known["server_settings"] = {**known["server_settings"], "timezone": "UTC", **settings}
            return {**known, "command_timeout": 60}

        async def connect_hot() -> asyncpg.Connection:
            connection = await asyncpg.connect(**arguments(url, _SETTINGS | PINNED_PLANS))
            try:
                await _prepare_hot(connection)
            except BaseException:
                connection.terminate()
                raise
            return connection

        through, settings, options = url, _SETTINGS, {}
        if pooled_url is not None:
            # A pooler refuses settings it does not track, and the next statement may meet another server process.
            through, settings, options = pooled_url, {}, {"statement_cache_size": 0}
        try:
            main = await asyncpg.create_pool(
                **arguments(through, settings), **options, min_size=0, max_size=size, init=_prepare
            )
            async with main.acquire() as connection, connection.transaction():
                await connection.fetchval("select 1")
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise Unavailable(
                f"PostgreSQL does not answer at {mask_url(url)}: {error}. "
                "Check OPILIO_DATABASE_URL, or leave it out to use the embedded server."
            ) from error
        return cls(main, HotConnections(connect_hot, hot_size), url, pooled=pooled_url is not None)

    async def close(self) -> None:
        await self._listener.close()
        await asyncio.gather(self._main.close(), self._hot.close())

    @asynccontextmanager
    async def session(self, *, hot: bool = False) -> AsyncIterator[Session]:
        if self._pooled and not hot:
            # A pooler keeps one server connection for a transaction alone, and a statement takes two messages.
            async with self.transaction() as session:
                yield session
            return
        async with (self._hot if hot else self._main).acquire() as connection:
            yield Session(connection)

    @asynccontextmanager
    async def transaction(self, *, hot: bool = False) -> AsyncIterator[Session]:
        async with (self._hot if hot else self._main).acquire() as connection, connection.transaction():
            yield Session(connection)

    async def transact(
        self,
        work: Callable[[Session], Awaitable[T]],
        *,
        hot: bool = False,
        autocommit: bool = False,
        tries: int = 4,
    ) -> T:
        """Runs `work` in a transaction; a deadlock or a change by others, which only ever cost time, is tried again.

        With `autocommit` each statement is a transaction of its own, without BEGIN and COMMIT.
        """
        autocommit = autocommit and (hot or not self._pooled)  # see session()
        for attempt in range(1, tries + 1):
            try:
                async with (self._hot if hot else self._main).acquire() as connection:
                    if autocommit:
                        return await work(Session(connection))
                    async with connection.transaction():
                        return await work(Session(connection))
            except _RETRYABLE:
                if attempt == tries:
                    raise
                await asyncio.sleep(random.uniform(0, 0.02 * attempt))
        raise AssertionError("unreachable")

    async def fetch(self, statement: Statement, *, hot: bool = False, **params: Any) -> list[Row]:
        async with self.session(hot=hot) as session:
            return await session.fetch(statement, **params)

    async def row(self, statement: Statement, **params: Any) -> Row | None:
        async with self.session() as session:
            return await session.row(statement, **params)

    async def value(self, statement: Statement, **params: Any) -> Any:
        async with self.session() as session:
            return await session.value(statement, **params)

    async def execute(self, statement: Statement, **params: Any) -> int:
        async with self.session() as session:
            return await session.execute(statement, **params)

    @asynccontextmanager
    async def try_lock(self, name: str) -> AsyncIterator[bool]:
        """Holds a lock by name among all processes; False while another one has it."""
        async with (self._hot if self._pooled else self._main).acquire() as connection:
            if not await connection.fetchval("select pg_try_advisory_lock(hashtext($1))", name):
                yield False
                return
            try:
                yield True
            finally:
                await connection.fetchval("select pg_advisory_unlock(hashtext($1))", name)

    async def notify(self, channel: str, payload: str = "") -> None:
        async with self.session() as session:
            await session.connection.execute("select pg_notify($1, $2)", channel, payload)

    async def listen(self, channels: Sequence[str], heard: Heard) -> Subscription:
        """Calls `heard` with channel and payload of every NOTIFY, on one connection for the whole process."""
        return await self._listener.subscribe(channels, heard)


# Numbers keep their digits on the way in and on the way out: a price is never a float.
_encode = msgspec.json.Encoder(decimal_format="number").encode


async def _prepare(connection: Any) -> None:
    async with (
        connection.transaction()
    ):  # two statements each: a pooler must not change the server in between
        await _use_exact_json(connection)


async def _prepare_hot(connection: Any) -> None:
    await _prepare(connection)
    await share_values(connection)


async def _use_exact_json(connection: Any) -> None:
    for kind in ("json", "jsonb"):
        await connection.set_type_codec(
            kind, schema="pg_catalog", encoder=lambda value: _encode(value).decode(), decoder=decode_stored
        )
