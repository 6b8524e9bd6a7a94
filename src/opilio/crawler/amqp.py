"""The SDK's RabbitMQ connection: the same publisher and consumer as Opilio's own bus."""

from typing import Self

from opilio.bus import Handler, Headers
from opilio.contracts.topology import Queue, topology
from opilio.rabbitmq.bus import RabbitBus
from opilio.rabbitmq.consumer import RabbitConsumer


class AmqpLink:
    """Uses the queues and exchanges that Opilio declares; declares none itself.

    A message that no queue takes raises `Unroutable`, so that its task is not acknowledged. A handler that raises is
    called again after 1, 2, 4 … 60 seconds, ten times, and the task then becomes a dead letter.
    """

    def __init__(self, bus: RabbitBus) -> None:
        self._bus = bus

    @classmethod
    async def connect(cls, url: str) -> Self:
        bus = RabbitBus(url, topology(), declare=False)
        await bus.connection()
        return cls(bus)

    async def publish(
        self,
        exchange: str,
        routing_key: str,
        body: bytes,
        *,
        headers: Headers | None = None,
        message_id: str | None = None,
        correlation_id: str | None = None,
    ) -> None:
        await self._bus.publish(
            exchange,
            routing_key,
            body,
            headers=headers,
            message_id=message_id,
            correlation_id=correlation_id,
        )

    async def consume(self, queue: str, handler: Handler, *, prefetch: int = 1) -> RabbitConsumer:
        """Hands messages to `handler` until closed, across reconnects; closing waits for running handlers."""
        return await self._bus.consume_queue(Queue(queue, ""), handler, prefetch=prefetch)

    async def close(self) -> None:
        await self._bus.close()
