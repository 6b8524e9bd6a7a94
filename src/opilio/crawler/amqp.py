"""The SDK's own way to RabbitMQ: a connection that mends itself, publisher confirms, one verdict per message."""

from collections.abc import Awaitable, Callable
from typing import Any, Self
from uuid import uuid4

import aio_pika
from aio_pika.abc import AbstractIncomingMessage, AbstractRobustChannel, AbstractRobustConnection

from opilio.bus import (
    CONTENT_ENCODING,
    CONTENT_TYPE,
    Ack,
    DeadLetter,
    Handler,
    Headers,
    Message,
    standard_headers,
)


class AmqpLink:
    """Uses the queues and exchanges that Opilio declares; declares none."""

    def __init__(self, connection: AbstractRobustConnection, channel: AbstractRobustChannel) -> None:
        self._connection = connection
        self._publishing = channel

    @classmethod
    async def connect(cls, url: str) -> Self:
        connection = await aio_pika.connect_robust(url)
        channel: Any = await connection.channel(publisher_confirms=True)
        return cls(connection, channel)

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
        message = aio_pika.Message(
            body,
            headers=standard_headers(headers),
            content_type=CONTENT_TYPE,
            content_encoding=CONTENT_ENCODING,
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
            message_id=message_id or str(uuid4()),
            correlation_id=correlation_id,
        )
        target = await self._publishing.get_exchange(exchange, ensure=False)
        await target.publish(message, routing_key, mandatory=True)

    async def consume(self, queue: str, handler: Handler, *, prefetch: int = 1) -> "AmqpConsumer":
        channel = await self._connection.channel()
        await channel.set_qos(prefetch_count=prefetch)
        source = await channel.get_queue(queue, ensure=False)
        tag = await source.consume(_settling(queue, handler))

        async def end() -> None:
            await source.cancel(tag)
            await channel.close()

        return AmqpConsumer(end)

    async def close(self) -> None:
        await self._connection.close()


class AmqpConsumer:
    def __init__(self, end: Callable[[], Awaitable[None]]) -> None:
        self._end = end

    async def close(self) -> None:
        await self._end()


def _settling(queue: str, handler: Handler) -> Callable[[AbstractIncomingMessage], Awaitable[None]]:
    async def settle(incoming: AbstractIncomingMessage) -> None:
        message = Message(
            body=incoming.body,
            queue=queue,
            exchange=incoming.exchange or "",
            routing_key=incoming.routing_key or "",
            message_id=incoming.message_id or str(uuid4()),
            correlation_id=incoming.correlation_id,
            headers=dict(incoming.headers),
        )
        try:
            verdict = await handler(message)
        except BaseException:  # what was not told goes back to the queue, whatever ended the handler
            await incoming.nack(requeue=True)
            raise
        match verdict:
            case Ack():
                await incoming.ack()
            case DeadLetter():
                await incoming.reject(requeue=False)
            case _:
                await incoming.nack(requeue=True)

    return settle
