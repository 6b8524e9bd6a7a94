"""Declares a topology on RabbitMQ: durable topic exchanges, quorum queues, parking queues, dead letters."""

from typing import Any

import structlog
from aio_pika.abc import AbstractChannel, AbstractConnection
from aio_pika.exceptions import ChannelPreconditionFailed

from opilio.contracts.topology import DEAD_LETTERS, Queue, Topology

log = structlog.get_logger(__name__)


class Declaration:
    """Declares a topology; what exists with other arguments is used as it is, with a warning."""

    def __init__(self, connection: AbstractConnection) -> None:
        self._connection = connection
        self._channel: AbstractChannel | None = None

    async def declare(self, topology: Topology) -> None:
        channel = await self._open_channel()
        for exchange in topology.exchanges:
            await channel.declare_exchange(exchange.name, "topic", durable=True)
        for queue in topology.queues:
            await self._queue_family(queue)
        await (await self._open_channel()).close()

    async def _queue_family(self, queue: Queue) -> None:
        dead = {}
        if queue.dead_letters:
            await self._queue(queue.dead_letter_queue, {})
            await self._bind(queue.dead_letter_queue, DEAD_LETTERS, queue.dead_letter_queue)
            dead = {
                "x-dead-letter-exchange": DEAD_LETTERS,
                "x-dead-letter-routing-key": queue.dead_letter_queue,
            }
        await self._queue(queue.name, dead)
        for binding in queue.bindings:
            await self._bind(queue.name, binding.exchange, binding.pattern)
        for name in queue.parking:
            await self._queue(queue.parking_queue(name), {})

    async def declare_delay(self, queue: Queue, name: str) -> None:
        """Declares one delay queue when it is first needed; its messages have their own TTL."""
        back = {
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": queue.name,
            "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish",
        }
        await self._queue(name, back)
        await (await self._open_channel()).close()

    async def _queue(self, name: str, arguments: dict[str, Any]) -> None:
        channel = await self._open_channel()
        try:
            await channel.declare_queue(name, durable=True, arguments={"x-queue-type": "quorum", **arguments})
        except ChannelPreconditionFailed as error:
            log.warning("rabbitmq.queue_differs", queue=name, error=str(error))

    async def _bind(self, queue: str, exchange: str, pattern: str) -> None:
        channel = await (await self._open_channel()).get_underlay_channel()
        await channel.queue_bind(queue, exchange, pattern)

    async def _open_channel(self) -> AbstractChannel:
        if self._channel is None or self._channel.is_closed:
            self._channel = await self._connection.channel(publisher_confirms=False)
        return self._channel
