"""The bus on RabbitMQ: quorum queues, publisher confirms, mandatory routing, reconnects.

Confirms are awaited for a whole batch, not message by message. A lost connection fails the publications in
progress (they may or may not have arrived: publish again with the same message id) and is opened again by the
next use; consumers come back by themselves.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TypeAlias

import aio_pika
import aiormq
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage
from aio_pika.exceptions import AMQPError, ChannelNotFoundEntity, ChannelPreconditionFailed
from aiormq.abc import DeliveredMessage

from opilio.bus import Bus, Handler, Outgoing, Unpublishable, Unroutable
from opilio.contracts.topology import Queue, Topology
from opilio.errors import Unavailable
from opilio.logs import get_logger
from opilio.rabbitmq import messages as wire
from opilio.rabbitmq.consumer import RabbitConsumer
from opilio.rabbitmq.declare import Declaration
from opilio.rabbitmq.faults import connection_fault

log = get_logger(__name__)
CONNECTION_FAULTS = (AMQPError, ConnectionError, OSError, TimeoutError, RuntimeError)
_PATIENCE = 10.0  # seconds for a connection or a confirm
_WINDOW = 1000  # publications in progress at once
# The broker queues more than 32 acknowledgements at once, and forgets those in the queue when the channel closes: the
# messages would be moved twice.
_MOVED_AT_ONCE = 30
_Target: TypeAlias = Callable[[AbstractIncomingMessage], Outgoing | None]
_Until: TypeAlias = Callable[[], bool]


class RabbitBus(Bus):
    """One connection, shared by the publishers and consumers of a process.

    `declare=False` is for clients that use a topology which Opilio declares: crawlers.
    """

    def __init__(self, url: str, topology: Topology, *, declare: bool = True) -> None:
        self._url = url
        self._topology = topology
        self._declare = declare
        self._opening = asyncio.Lock()
        self._connection: AbstractConnection | None = None
        self._publishing: AbstractChannel | None = None
        self._known = {queue.name: queue for queue in topology.queues}
        self._delays: set[str] = set()
        self._consumers: list[RabbitConsumer] = []

    @classmethod
    async def connect(cls, url: str, topology: Topology, *, declare: bool = True) -> "RabbitBus":
        bus = cls(url, topology, declare=declare)
        await bus.connection()
        return bus

    async def connection(self) -> AbstractConnection:
        """The open connection, or a new one with the topology declared."""
        async with self._opening:
            if self._connection is None or not _is_open(self._connection):
                self._publishing = None
                self._delays = set()
                self._connection = await self._open()
            return self._connection

    async def _open(self) -> AbstractConnection:
        connection: AbstractConnection | None = None
        try:
            connection = await aio_pika.connect(self._url, timeout=_PATIENCE)
            if self._declare:
                await Declaration(connection).declare(self._topology)
        except CONNECTION_FAULTS as error:
            if connection is not None:
                with suppress(*CONNECTION_FAULTS):
                    await connection.close()
                raise Unavailable(f"RabbitMQ refused the topology: {error!r}") from error
            said, remedy = connection_fault(error, self._url)
            raise Unavailable(f"RabbitMQ cannot be used: {said}; {remedy}") from error
        except BaseException:
            if connection is not None:
                await connection.close()
            raise
        return connection

    async def _channel(self) -> aiormq.Channel:
        connection = await self.connection()
        if self._publishing is None or self._publishing.is_closed:
            self._publishing = await connection.channel(publisher_confirms=True, on_return_raises=False)
        channel = await self._publishing.get_underlay_channel()
        assert isinstance(channel, aiormq.Channel)  # whose `wait=False` leaves the flush to the writer
        return channel

    async def publish_many(self, messages: Sequence[Outgoing]) -> list[Unpublishable | None]:
        results: list[Unpublishable | None] = []
        for start in range(0, len(messages), _WINDOW):
            results += await self._publish_window(messages[start : start + _WINDOW])
        return results

    async def _publish_window(self, window: Sequence[Outgoing]) -> list[Unpublishable | None]:
        try:
            answers = await self._publish(window)
            if any(isinstance(answer, ChannelPreconditionFailed) for answer in answers):
                # One message closed the channel for all that were not confirmed yet: each is published alone.
                for n, answer in enumerate(answers):
                    if isinstance(answer, BaseException):
                        [answers[n]] = await self._publish([window[n]])
            return [_result(message, answer) for message, answer in zip(window, answers, strict=True)]
        except CONNECTION_FAULTS as error:
            raise Unavailable(f"RabbitMQ did not confirm: {error!r}") from error

    async def _publish(self, window: Sequence[Outgoing]) -> list[object]:
        """The broker's answer to each message, or the exception that it ended with."""
        keys = [await self._routing_key(message) for message in window]
        channel = await self._channel()
        # The channel's lock is fair, so tasks that start in order publish in order.
        tasks = [
            asyncio.create_task(self._publish_one(channel, message, key))
            for message, key in zip(window, keys, strict=True)
        ]
        return list(await asyncio.gather(*tasks, return_exceptions=True))

    async def _publish_one(self, channel: aiormq.Channel, message: Outgoing, key: str) -> object:
        return await channel.basic_publish(
            message.body,
            exchange=message.exchange,
            routing_key=key,
            properties=wire.properties(message),
            mandatory=True,
            timeout=_PATIENCE,
            wait=False,
        )

    async def _routing_key(self, message: Outgoing) -> str:
        """Where it is published: a message that waits goes to the delay queue of its wait."""
        if message.after is None:
            return message.routing_key
        queue = self._queue(message.routing_key)
        if message.exchange or queue is None:
            raise ValueError(f"only a queue can be published to with a delay, not {message.routing_key!r}")
        name = queue.delay_queue(message.after)
        if name not in self._delays:
            await Declaration(await self.connection()).declare_delay(queue, name)
            self._delays.add(name)
        return name

    def _queue(self, name: str) -> Queue | None:
        return self._known.get(name)

    async def consume(
        self, queue: str, handler: Handler, *, prefetch: int = 1, delivery_limit: int | None = 20
    ) -> RabbitConsumer:
        return await self.consume_queue(
            self._topology.queue(queue), handler, prefetch=prefetch, delivery_limit=delivery_limit
        )

    async def consume_queue(
        self, queue: Queue, handler: Handler, *, prefetch: int = 1, delivery_limit: int | None = 20
    ) -> RabbitConsumer:
        """As `consume`, also for a queue that the topology does not have."""
        self._known.setdefault(queue.name, queue)
        consumer = RabbitConsumer(self, queue, handler, prefetch, delivery_limit)
        self._consumers.append(consumer)
        await consumer.start()
        return consumer

    async def depth(self, queue: str) -> int:
        connection = await self.connection()
        channel = await connection.channel(publisher_confirms=False)
        try:
            declared = await channel.declare_queue(queue, passive=True)
        except ChannelNotFoundEntity:  # a delay queue that was never needed
            return 0
        await channel.close()
        return declared.declaration_result.message_count or 0

    async def unpark(self, queue: str, name: str) -> int:
        target = self._topology.queue(queue)

        def to_main_queue(incoming: AbstractIncomingMessage) -> Outgoing:
            return _same(incoming, target.name, dropped=("x-reason",))

        return await self._move(target.parking_queue(name), to_main_queue)

    async def remove(self, queue: str, dead_letter_ids: Iterable[str]) -> set[str]:
        """Deletes messages of a dead-letter queue; the others go to its end.

        They are not returned to it unacknowledged: that counts as a delivery, and RabbitMQ 4 drops a message
        after 20 of them.
        """
        wanted = set(dead_letter_ids)
        removed: set[str] = set()

        def keep_others(incoming: AbstractIncomingMessage) -> Outgoing | None:
            found = wanted & {str(incoming.headers.get("x-dead-letter-id")), str(incoming.message_id)}
            removed.update(found)
            return None if found else _same(incoming, queue)

        await self._move(queue, keep_others, until=lambda: removed == wanted)
        return removed

    async def _move(self, queue: str, target: _Target, until: _Until = lambda: False) -> int:
        """Takes every message of a queue once and publishes it elsewhere (None: drops it), then acknowledges."""
        connection = await self.connection()
        moved = 0
        async with connection.channel(publisher_confirms=False) as channel:
            source = await channel.declare_queue(queue, passive=True)
            left = source.declaration_result.message_count or 0
            while left > 0 and not until():
                taken: list[tuple[AbstractIncomingMessage, Outgoing | None]] = []
                while len(taken) < min(left, _MOVED_AT_ONCE) and not until():
                    incoming = await source.get(fail=False)
                    if incoming is None:
                        left = 0
                        break
                    taken.append((incoming, target(incoming)))
                await self._republish([outgoing for _, outgoing in taken if outgoing is not None])
                for incoming, _ in taken:
                    await incoming.ack()
                moved += len(taken)
                left -= len(taken)
        return moved

    async def _republish(self, outgoing: Sequence[Outgoing]) -> None:
        for refused in await self.publish_many(outgoing):
            if refused:
                raise Unavailable(f"a message could not be moved: {refused}")

    async def close(self) -> None:
        await asyncio.gather(*(consumer.close() for consumer in self._consumers))
        if self._connection is not None:
            await self._connection.close()


def _result(message: Outgoing, answer: object) -> Unpublishable | None:
    match answer:
        case DeliveredMessage():
            return Unroutable(f"no queue is bound for {message.exchange!r} / {message.routing_key!r}")
        case ChannelPreconditionFailed():
            return Unpublishable(f"the broker refused it: {' '.join(map(str, answer.args))}")
        case BaseException():
            raise answer
    return None


def _same(incoming: AbstractIncomingMessage, queue: str, dropped: Iterable[str] = ()) -> Outgoing:
    """A copy of a message for a queue, its headers kept but those that the broker adds."""
    headers = {
        name: value
        for name, value in incoming.headers.items()
        if name not in (*wire.ADDED_BY_BROKER, *dropped) and not name.startswith("x-first-death-")
    }
    message_id = incoming.message_id or ""
    return Outgoing("", queue, incoming.body, headers, message_id, incoming.correlation_id)


def _is_open(connection: AbstractConnection) -> bool:
    """`is_closed` is set by our own closing alone; when the broker closes, `connected` is cleared."""
    return connection.connected.is_set() and not connection.is_closed
