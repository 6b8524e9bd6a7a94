"""The bus of an embedded instance: exchanges, queues and messages in tables of PostgreSQL.

A message is a row until its verdict is committed, so it survives a consumer that dies. A consumer leases the
messages it takes and renews the lease while it lives; when it dies, the lease expires.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec

from opilio.adapters.postgres import Database, Row, Session
from opilio.adapters.sql import QUERIES
from opilio.bus import (
    ORIGINAL_EXCHANGE,
    ORIGINAL_ROUTING_KEY,
    Ack,
    Bus,
    DeadLetter,
    Handler,
    Message,
    Outgoing,
    Park,
    Retry,
    Unpublishable,
    Unroutable,
    Verdict,
    read_retries,
    standard_headers,
    topic_regex,
    verdict_of,
)
from opilio.contracts.topology import Queue, Topology
from opilio.logs import get_logger
from opilio.loop import wait_for

log = get_logger(__name__)
_CHANNEL = "opilio_bus"


class LocalBus(Bus):
    """Publishes and consumes by SQL; woken by NOTIFY."""

    def __init__(self, database: Database, topology: Topology, lease: timedelta) -> None:
        self._db = database
        self._topology = topology
        self.lease = lease
        self._wakers: dict[str, list[asyncio.Event]] = {}
        self._consumers: list[LocalConsumer] = []
        self._listener: Any = None

    @classmethod
    async def connect(
        cls, database: Database, topology: Topology, *, lease: timedelta = timedelta(seconds=30)
    ) -> "LocalBus":
        bus = cls(database, topology, lease)
        await database.transact(bus._declare)
        bus._listener = await database.listen([_CHANNEL], bus._heard)
        return bus

    async def _declare(self, session: Session) -> None:
        main = [queue.name for queue in self._topology.queues]
        bound = [(b.exchange, b.pattern, q.name) for q in self._topology.queues for b in q.bindings]
        exchanges, patterns, queues = [list(column) for column in zip(*bound, strict=True)]
        await session.execute(QUERIES.bus_declare_queues, queues=main)
        await session.execute(
            QUERIES.bus_delete_bindings, queues=main, exchanges=exchanges, patterns=patterns, bound=queues
        )
        await session.execute(
            QUERIES.bus_declare_bindings,
            exchanges=exchanges,
            patterns=patterns,
            bound=queues,
            regexes=[topic_regex(pattern) for pattern in patterns],
        )

    def _heard(self, _channel: str, queue: str) -> None:
        woken = (
            self._wakers.get(queue, []) if queue else [e for events in self._wakers.values() for e in events]
        )
        for event in woken:
            event.set()

    async def publish_many(self, messages: Sequence[Outgoing]) -> list[Unpublishable | None]:
        async with self._db.transaction() as session:
            return await self.route(session, messages)

    async def route(self, session: Session, messages: Sequence[Outgoing]) -> list[Unpublishable | None]:
        """Publishes inside the caller's transaction: the messages are there when it commits."""
        if not messages:
            return []
        rows = await session.fetch(
            QUERIES.bus_publish,
            exchanges=[m.exchange for m in messages],
            routing_keys=[m.routing_key for m in messages],
            bodies=[m.body for m in messages],
            headers=[msgspec.json.encode(standard_headers(m.headers)).decode() for m in messages],
            message_ids=[m.message_id for m in messages],
            correlation_ids=[m.correlation_id for m in messages],
            delays=[m.after.total_seconds() if m.after else None for m in messages],
        )
        return [
            None if row["queues"] else Unroutable(f"no queue is bound for {m.exchange!r} / {m.routing_key!r}")
            for m, row in zip(messages, rows, strict=True)
        ]

    async def consume(
        self, queue: str, handler: Handler, *, prefetch: int = 1, delivery_limit: int | None = 20
    ) -> "LocalConsumer":
        consumer = LocalConsumer(
            self._db,
            self._topology.queue(queue),
            handler,
            prefetch=prefetch,
            delivery_limit=delivery_limit,
            lease=self.lease,
        )
        self._wakers.setdefault(queue, []).append(consumer.wake)
        self._consumers.append(consumer)
        consumer.start()
        return consumer

    async def unpark(self, queue: str, name: str) -> int:
        parking = self._topology.queue(queue).parking_queue(name)
        return await self._db.execute(QUERIES.bus_unpark, parking=parking, queue=queue)

    async def depth(self, queue: str) -> int:
        return int(await self._db.value(QUERIES.bus_depth, queue=queue))

    async def close(self) -> None:
        await asyncio.gather(*(consumer.close() for consumer in self._consumers))
        if self._listener:
            await self._listener.close()


class LocalConsumer:
    """Takes messages, calls the handler, settles; renews the lease of the messages it has."""

    def __init__(
        self,
        database: Database,
        queue: Queue,
        handler: Handler,
        *,
        prefetch: int,
        delivery_limit: int | None,
        lease: timedelta,
    ) -> None:
        self._db = database
        self._queue = queue
        self._handler = handler
        self._prefetch = prefetch
        self._delivery_limit = delivery_limit
        self._lease_seconds = lease.total_seconds()
        self._lease: UUID = uuid4()
        self.wake = asyncio.Event()
        self._handling: dict[int, asyncio.Task[None]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._take_forever()), asyncio.create_task(self._renew_forever())]

    async def _take_forever(self) -> None:
        while True:
            self.wake.clear()
            try:
                wait = await self._take()
            except Exception:
                log.exception("bus.take_failed", queue=self._queue.name)
                wait = 1.0
            if wait > 0:
                await wait_for(self.wake, wait)

    async def _take(self) -> float:
        """Takes as many as there is room for; answers the seconds to wait unless woken."""
        room = self._prefetch - len(self._handling)
        if room <= 0:
            return self._lease_seconds
        rows = await self._db.fetch(
            QUERIES.bus_take,
            queue=self._queue.name,
            most=room,
            lease=self._lease,
            lease_seconds=self._lease_seconds,
        )
        for row in sorted(rows, key=lambda row: row["id"]):
            self._handling[row["id"]] = asyncio.create_task(self._handle(row))
        if len(rows) == room:
            return 0
        next_ready = await self._db.value(QUERIES.bus_next_ready, queue=self._queue.name)
        return 5.0 if next_ready is None else min(max(next_ready, 0.005), 5.0)

    async def _handle(self, row: Row) -> None:
        message = _message(row)
        try:
            verdict = await verdict_of(message, self._handler, self._delivery_limit)
            await self._settle(row["id"], verdict, message)
        except Exception:  # the lease expires and the message is delivered again: nothing is lost
            log.exception("bus.settle_failed", queue=message.queue, message_id=message.message_id)
        finally:
            self._handling.pop(row["id"], None)
            self.wake.set()

    async def _settle(self, id_: int, verdict: Verdict, message: Message) -> None:
        match verdict:
            case Ack():
                await self._db.execute(QUERIES.bus_ack, id=id_, lease=self._lease)
            case Retry(after, reason):
                headers = {"retry": True, "x-retries": message.retries + 1, "x-reason": reason}
                await self._db.execute(
                    QUERIES.bus_retry, id=id_, lease=self._lease, delay=after.total_seconds(), headers=headers
                )
            case DeadLetter(reason):
                await self._db.execute(
                    QUERIES.bus_dead_letter,
                    id=id_,
                    lease=self._lease,
                    reason=reason,
                    dead_letter_queue=self._queue.dead_letter_queue,
                )
            case Park(name, _):
                parking = self._queue.parking_queue(name)
                await self._db.execute(QUERIES.bus_park, id=id_, lease=self._lease, parking=parking)

    async def _renew_forever(self) -> None:
        while True:
            await asyncio.sleep(self._lease_seconds / 3)
            ids = list(self._handling)
            if not ids:
                continue
            try:
                await self._db.execute(
                    QUERIES.bus_renew, ids=ids, lease=self._lease, lease_seconds=self._lease_seconds
                )
            except Exception:
                log.exception("bus.renew_failed", queue=self._queue.name)

    async def close(self) -> None:
        if not self._tasks:
            return
        taking, renewing = self._tasks
        self._tasks = []
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
        await asyncio.gather(*list(self._handling.values()), return_exceptions=True)
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        await self._db.execute(QUERIES.bus_release, queue=self._queue.name, lease=self._lease)


def _message(row: Row) -> Message:
    """The message with the exchange and routing key it was first published with."""
    headers = dict(row["headers"])
    exchange = headers.pop(ORIGINAL_EXCHANGE, None)
    routing_key = headers.pop(ORIGINAL_ROUTING_KEY, None)
    retries, fault = read_retries(headers)
    return Message(
        body=row["body"],
        queue=row["queue"],
        exchange=exchange if isinstance(exchange, str) else row["exchange"],
        routing_key=routing_key if isinstance(routing_key, str) else row["routing_key"],
        message_id=row["message_id"],
        correlation_id=row["correlation_id"],
        headers=headers,
        deliveries=row["deliveries"],
        retries=retries,
        fault=fault,
    )
