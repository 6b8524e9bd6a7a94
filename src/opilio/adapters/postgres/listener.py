"""One connection a process that hears NOTIFY and passes it to everybody who subscribed."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import asyncpg

from opilio.adapters.postgres.database_url import parse_database_url
from opilio.logs import get_logger

Heard: TypeAlias = Callable[[str, str], None]
_log = get_logger(__name__)
_FAULTS = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)
_PATIENCE = 10.0  # seconds for connecting and for an answer
_CHECK_EVERY = 30.0  # seconds; finds a connection that died silently
_RECONNECT_EVERY = 1.0


class Subscription:
    """One subscriber's channels."""

    def __init__(self, listener: "Listener", channels: Sequence[str], heard: Heard) -> None:
        self._listener = listener
        self.channels = tuple(channels)
        self.heard = heard

    async def close(self) -> None:
        await self._listener.remove(self)


class Listener:
    """Connects with the first subscription and comes back by itself after the server was away.

    After a reconnect each subscriber is called with an empty payload: notifications in between were missed.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._subscriptions: list[Subscription] = []
        self._listening: set[str] = set()
        self._connection: Any = None
        self._lost = asyncio.Event()
        self._changing = asyncio.Lock()
        self._keeping: asyncio.Task[None] | None = None

    async def subscribe(self, channels: Sequence[str], heard: Heard) -> Subscription:
        """Returns when the channels are heard, or when the server does not answer: then it is tried again."""
        subscription = Subscription(self, channels, heard)
        self._subscriptions.append(subscription)
        try:
            await self._listen()
        except _FAULTS as error:
            _log.warning("listener.waits", error=str(error))
            self._lost.set()
        if self._keeping is None:
            self._keeping = asyncio.create_task(self._keep())
        return subscription

    async def remove(self, subscription: Subscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
        if not self._subscriptions:
            await self.close()

    async def _listen(self) -> None:
        async with self._changing:
            if self._connection is None or self._connection.is_closed():
                self._listening = set()
                arguments = parse_database_url(self._url).arguments("opilio-listen")
                self._connection = await asyncpg.connect(**arguments | {"timeout": _PATIENCE})
                self._connection.add_termination_listener(lambda _connection: self._lost.set())
            wanted = {channel for each in self._subscriptions for channel in each.channels}
            for channel in sorted(wanted - self._listening):
                async with asyncio.timeout(_PATIENCE):
                    await self._connection.add_listener(channel, self._on_notify)
                self._listening.add(channel)

    def _on_notify(self, _connection: Any, _pid: int, channel: str, payload: str) -> None:
        for subscription in list(self._subscriptions):
            if channel in subscription.channels:
                subscription.heard(channel, payload)

    async def _keep(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_CHECK_EVERY):
                    await self._lost.wait()
            if await self._answers():
                continue
            try:
                await self._listen()
            except _FAULTS:
                await asyncio.sleep(_RECONNECT_EVERY)
                continue
            self._lost.clear()
            for subscription in list(self._subscriptions):
                for channel in subscription.channels:
                    subscription.heard(channel, "")

    async def _answers(self) -> bool:
        """Whether the connection is alive; one that does not answer is given up."""
        if self._lost.is_set() or self._connection is None or self._connection.is_closed():
            self._lost.set()
            return False
        try:
            async with self._changing, asyncio.timeout(_PATIENCE):
                await self._connection.execute("select 1")
        except _FAULTS:
            self._connection.terminate()
            self._lost.set()
            return False
        return True

    async def close(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
            self._keeping = None
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            with suppress(*_FAULTS):
                await connection.close(timeout=_PATIENCE)
