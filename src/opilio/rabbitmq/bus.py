"""The bus on RabbitMQ: quorum queues, publisher confirms, mandatory routing, its own reconnects.

Confirms are awaited for a whole batch, not message by message. A lost connection fails the publications under
way (they may or may not have arrived: publish again, with the same message id) and is opened again by the
next use; consumers come back by themselves.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import aio_pika
import aiormq
import structlog
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage
from aio_pika.exceptions import AMQPError
from aiormq.abc import DeliveredMessage
from pamqp.commands import Basic

from opilio.bus import (
    CONTENT_ENCODING,
    CONTENT_TYPE,
    Ack,
    Bus,
    DeadLetter,
    Handler,
    Headers,
    Hold,
    Message,
    Outgoing,
    Retry,
    Unroutable,
    Verdict,
    after_exception,
    standard_headers,
)
from opilio.contracts.topology import DEAD_LETTERS, Queue, Topology
from opilio.errors import Unavailable
from opilio.rabbitmq.declare import Declaration

log = structlog.get_logger(__name__)
_GONE = (AMQPError, ConnectionError, OSError, TimeoutError, RuntimeError)
_PATIENCE = 10.0  # seconds for a connection or a confirm
_WINDOW = 1000  # publications under way at once
_OF_THE_BROKER = ("x-death", "x-delivery-count", "x-acquired-count")  # headers that it adds itself


class RabbitBus(Bus):
    """One connection, shared by publishers and consumers of a process."""

    def __init__(self, url: str, topology: Topology, *, declare: bool = True) -> None:
        self._url = url
        self._topology = topology
        self._declare = declare  # False: uses what others declare
        self._opening = asyncio.Lock()
        self._connection: AbstractConnection | None = None
        self._publishing: AbstractChannel | None = None
        self._consumers: list[RabbitConsumer] = []

    @classmethod
    async def connect(cls, url: str, topology: Topology) -> "RabbitBus":
        bus = cls(url, topology)
        await bus.connection()
        return bus

    async def connection(self) -> AbstractConnection:
        """The open connection, or a new one with the topology declared."""
        async with self._opening:
            if self._connection is None or not _is_open(self._connection):
                self._publishing = None
                self._connection = await self._open()
            return self._connection

    async def _open(self) -> AbstractConnection:
        try:
            connection = await aio_pika.connect(self._url, timeout=_PATIENCE)
            if self._declare:
                await Declaration(connection).declare(self._topology)
        except _GONE as error:
            raise Unavailable(
                f"RabbitMQ does not answer: {error!r}. Check OPILIO_AMQP_URL, and that the broker runs."
            ) from error
        return connection

    async def _channel(self) -> AbstractChannel:
        connection = await self.connection()
        if self._publishing is None or self._publishing.is_closed:
            self._publishing = await connection.channel(publisher_confirms=True, on_return_raises=False)
        return self._publishing

    async def publish_many(self, messages: Sequence[Outgoing]) -> list[Unroutable | None]:
        outcomes: list[Unroutable | None] = []
        for start in range(0, len(messages), _WINDOW):
            outcomes += await self._publish_window(messages[start : start + _WINDOW])
        return outcomes

    async def _publish_window(self, messages: Sequence[Outgoing]) -> list[Unroutable | None]:
        try:
            channel = await (await self._channel()).get_underlay_channel()
            assert isinstance(channel, aiormq.Channel)  # whose `wait=False` leaves the flush to the writer
            # The channel's lock is fair, so tasks that start in order publish in order.
            answers = await asyncio.gather(
                *(
                    channel.basic_publish(
                        message.body,
                        exchange=message.exchange,
                        routing_key=message.routing_key,
                        properties=_properties(message),
                        mandatory=True,
                        timeout=_PATIENCE,
                        wait=False,
                    )
                    for message in messages
                )
            )
        except _GONE as error:
            raise Unavailable(f"RabbitMQ did not confirm: {error!r}") from error
        return [
            Unroutable(f"no queue is bound for {message.exchange!r} / {message.routing_key!r}")
            if isinstance(answer, DeliveredMessage)
            else None
            for message, answer in zip(messages, answers, strict=True)
        ]

    async def consume(
        self, queue: str, handler: Handler, *, prefetch: int = 1, delivery_limit: int | None = 20
    ) -> "RabbitConsumer":
        return await self.consume_queue(
            self._topology.queue(queue), handler, prefetch=prefetch, delivery_limit=delivery_limit
        )

    async def consume_queue(
        self, queue: Queue, handler: Handler, *, prefetch: int = 1, delivery_limit: int | None = 20
    ) -> "RabbitConsumer":
        """As `consume`, also for a queue that the topology does not have."""
        consumer = RabbitConsumer(self, queue, handler, prefetch, delivery_limit)
        self._consumers.append(consumer)
        await consumer.start()
        return consumer

    async def depth(self, queue: str) -> int:
        connection = await self.connection()
        async with connection.channel(publisher_confirms=False) as channel:
            declared = await channel.declare_queue(queue, passive=True)
            return declared.declaration_result.message_count or 0

    async def remove(self, queue: str, dead_letter_id: str) -> bool:
        """Takes one message out of a dead-letter queue; the others stay where they are."""
        connection = await self.connection()
        async with connection.channel(publisher_confirms=False) as channel:
            source = await channel.declare_queue(queue, passive=True)
            for _ in range(source.declaration_result.message_count or 0):
                message = await source.get(fail=False)
                if message is None:
                    break
                if dead_letter_id in (message.headers.get("x-dead-letter-id"), message.message_id):
                    await message.ack()
                    return True
        return False  # closing the channel gave back what was looked at

    async def close(self) -> None:
        await asyncio.gather(*(consumer.close() for consumer in self._consumers))
        if self._connection is not None:
            await self._connection.close()


class RabbitConsumer:
    """A subscription that outlives its connections.

    A message that is held stays unacknowledged and takes one place of its channel's prefetch; when all are
    taken, that channel is kept as it is and another one goes on with the queue.
    """

    MOST_CHANNELS = 200

    def __init__(
        self, bus: RabbitBus, queue: Queue, handler: Handler, prefetch: int, delivery_limit: int | None
    ) -> None:
        self._bus = bus
        self._queue = queue
        self._handler = handler
        self._prefetch = prefetch
        self._delivery_limit = delivery_limit
        self._channels: list[_ConsumingChannel] = []
        self._handling: set[asyncio.Task[Any]] = set()
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Subscribes, now or as soon as the broker is there."""
        try:
            first = await self._subscribe()
        except (Unavailable, *_GONE):
            first = None
        self._running = asyncio.create_task(self._run(first))

    async def _subscribe(self) -> "_ConsumingChannel":
        connection = await self._bus.connection()
        channel = await connection.channel(publisher_confirms=False)
        await channel.set_qos(prefetch_count=self._prefetch)
        consuming = _ConsumingChannel(channel, self._prefetch)
        queue = await channel.get_queue(self._queue.name, ensure=False)
        consuming.tag = await queue.consume(partial(self._on_message, consuming))
        self._channels.append(consuming)
        return consuming

    async def _run(self, consuming: "_ConsumingChannel | None") -> None:
        wait = 0.1
        while True:
            if consuming is not None:
                await consuming.spent()
            self._channels = [kept for kept in self._channels if not kept.channel.is_closed]
            if len(self._channels) >= self.MOST_CHANNELS:
                log.warning("rabbitmq.too_many_held", queue=self._queue.name)
                await asyncio.sleep(5)
                continue
            try:
                consuming = await self._subscribe()
                wait = 0.1
            except (Unavailable, *_GONE) as error:
                log.warning("rabbitmq.consumer_waits", queue=self._queue.name, error=str(error))
                await asyncio.sleep(wait)
                wait = min(wait * 2, 5)

    async def _on_message(self, consuming: "_ConsumingChannel", incoming: AbstractIncomingMessage) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handling.add(task)
        try:
            message = _message(incoming, self._queue)
            await self._settle(incoming, message, await self._verdict(message), consuming)
        except (Unavailable, *_GONE) as error:  # unsettled: the broker hands it out again
            log.warning("rabbitmq.settle_failed", queue=self._queue.name, error=str(error))
            with suppress(*_GONE):
                await incoming.nack(requeue=True)
        finally:
            self._handling.discard(task)

    async def _verdict(self, message: Message) -> Verdict:
        if self._delivery_limit is not None and message.deliveries > self._delivery_limit:
            return DeadLetter(f"handed out {message.deliveries} times without a verdict")
        try:
            return await self._handler(message)
        except Exception as error:
            log.exception("bus.handler_failed", queue=message.queue, message_id=message.message_id)
            return after_exception(error, message.retries)

    async def _settle(
        self,
        incoming: AbstractIncomingMessage,
        message: Message,
        verdict: Verdict,
        consuming: "_ConsumingChannel",
    ) -> None:
        match verdict:
            case Ack():
                await incoming.ack()
            case Retry(after, reason):
                await self._bus.publish_many([_retried(message, self._queue, after, reason)])
                await incoming.ack()
            case DeadLetter(reason):
                await self._bus.publish_many([_dead(message, self._queue, reason)])
                await incoming.ack()
            case Hold():
                consuming.hold()

    async def close(self) -> None:
        if self._running is None:
            return
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        self._running = None
        with suppress(*_GONE):
            await asyncio.gather(*(consuming.stop() for consuming in self._channels))
        await asyncio.gather(*self._handling, return_exceptions=True)
        with suppress(*_GONE):
            await asyncio.gather(*(consuming.channel.close() for consuming in self._channels))


class _ConsumingChannel:
    """A channel with one consumer, until it is closed or all its places are held."""

    def __init__(self, channel: AbstractChannel, prefetch: int) -> None:
        self.channel = channel
        self.tag: str | None = None
        self._free = prefetch
        self._spent = asyncio.Event()
        channel.close_callbacks.add(lambda *_: self._spent.set())

    def hold(self) -> None:
        self._free -= 1
        if self._free <= 0:
            self._spent.set()

    async def spent(self) -> None:
        await self._spent.wait()

    async def stop(self) -> None:
        if self.tag is not None and not self.channel.is_closed:
            underlay = await self.channel.get_underlay_channel()
            await underlay.basic_cancel(self.tag)


def _is_open(connection: AbstractConnection) -> bool:
    """`is_closed` tells of our own closing alone; when the broker ended it, `connected` is cleared."""
    return connection.connected.is_set() and not connection.is_closed


def _properties(message: Outgoing) -> Basic.Properties:
    return Basic.Properties(
        content_type=CONTENT_TYPE,
        content_encoding=CONTENT_ENCODING,
        delivery_mode=2,
        headers=standard_headers(message.headers),
        message_id=message.message_id,
        correlation_id=message.correlation_id,
        timestamp=datetime.now(UTC),
        expiration=str(int(message.after.total_seconds() * 1000)) if message.after is not None else None,
    )


def _message(incoming: AbstractIncomingMessage, queue: Queue) -> Message:
    headers: dict[str, Any] = dict(incoming.headers)
    deliveries = int(headers.get("x-delivery-count", int(bool(incoming.redelivered)))) + 1
    for name in [name for name in headers if name in _OF_THE_BROKER or name.startswith("x-first-death-")]:
        del headers[name]
    return Message(
        body=incoming.body,
        queue=queue.name,
        exchange=headers.pop("x-original-exchange", incoming.exchange or ""),
        routing_key=headers.pop("x-original-routing-key", incoming.routing_key or ""),
        message_id=incoming.message_id or str(uuid4()),
        correlation_id=incoming.correlation_id,
        headers=headers,
        deliveries=deliveries,
        retries=int(headers.get("x-retries", 0)),
    )


def _again(message: Message, exchange: str, key: str, headers: Headers, after: timedelta | None) -> Outgoing:
    """The same message by another road, remembering where it came from."""
    came = {"x-original-exchange": message.exchange, "x-original-routing-key": message.routing_key}
    return Outgoing(
        exchange,
        key,
        message.body,
        {**message.headers, **came, **headers},
        message.message_id,
        message.correlation_id,
        after,
    )


def _retried(message: Message, queue: Queue, after: timedelta, reason: str) -> Outgoing:
    retry = message.retries + 1
    headers = {"retry": True, "x-retries": retry, "x-reason": reason}
    return _again(message, "", queue.delay_queue(retry), headers, after)


def _dead(message: Message, queue: Queue, reason: str) -> Outgoing:
    headers = {
        "x-reason": reason,
        "x-queue": queue.name,
        "x-dead-letter-queue": queue.dead_letter_queue,
        "x-dead-letter-id": str(uuid4()),
    }
    return _again(message, DEAD_LETTERS, queue.dead_letter_queue, headers, None)
