"""A subscription to a queue that outlives its connections."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from aio_pika.exceptions import AMQPError

from opilio.bus import Ack, DeadLetter, Handler, Message, Outgoing, Park, Retry, Verdict, verdict_of
from opilio.contracts.topology import Queue
from opilio.errors import Unavailable
from opilio.logs import get_logger
from opilio.rabbitmq import messages as wire

if TYPE_CHECKING:
    from opilio.rabbitmq.bus import RabbitBus

log = get_logger(__name__)
_FAULTS = (Unavailable, AMQPError, ConnectionError, OSError, TimeoutError, RuntimeError)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


class RabbitConsumer:
    """Acknowledges a message once its verdict is stored; what is not settled is delivered again."""

    def __init__(
        self, bus: "RabbitBus", queue: Queue, handler: Handler, prefetch: int, delivery_limit: int | None
    ) -> None:
        self._bus = bus
        self._queue = queue
        self._handler = handler
        self._prefetch = prefetch
        self._delivery_limit = delivery_limit
        self._channel: AbstractChannel | None = None
        self._tag: str | None = None
        self._handling: set[asyncio.Task[Any]] = set()
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Subscribes, now or as soon as the broker answers."""
        closed: asyncio.Event | None = None
        with suppress(*_FAULTS):
            closed = await self._subscribe()
        self._running = asyncio.create_task(self._stay_subscribed(closed))

    async def _subscribe(self) -> asyncio.Event:
        """Answers an event that is set when the channel closes."""
        connection = await self._bus.connection()
        channel = await connection.channel(publisher_confirms=False)
        closed = asyncio.Event()
        channel.close_callbacks.add(lambda *_: closed.set())
        try:
            await channel.set_qos(prefetch_count=self._prefetch)
            queue = await channel.get_queue(self._queue.name, ensure=False)
            self._tag = await queue.consume(self._on_message)
        except BaseException:
            with suppress(*_FAULTS):
                await channel.close()
            raise
        self._channel = channel
        return closed

    async def _stay_subscribed(self, closed: asyncio.Event | None) -> None:
        pause = _FIRST_PAUSE
        while True:
            if closed is not None:
                await closed.wait()
            try:
                closed = await self._subscribe()
                pause = _FIRST_PAUSE
            except _FAULTS as error:
                closed = None
                log.warning("rabbitmq.consumer_waits", queue=self._queue.name, error=str(error))
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)

    async def _on_message(self, incoming: AbstractIncomingMessage) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handling.add(task)
        try:
            message = wire.read(incoming, self._queue)
            verdict = await verdict_of(message, self._handler, self._delivery_limit)
            await self._settle(incoming, message, verdict)
        except _FAULTS as error:  # not settled: the broker delivers it again
            log.warning("rabbitmq.settle_failed", queue=self._queue.name, error=str(error))
            with suppress(*_FAULTS):
                await incoming.nack(requeue=True)
        finally:
            self._handling.discard(task)

    async def _settle(self, incoming: AbstractIncomingMessage, message: Message, verdict: Verdict) -> None:
        moved = self._moved(message, verdict)
        if moved is not None:
            [refused] = await self._bus.publish_many([moved])
            if refused:
                raise Unavailable(f"it could not be moved: {refused}")
        await incoming.ack()

    def _moved(self, message: Message, verdict: Verdict) -> Outgoing | None:
        match verdict:
            case Ack():
                return None
            case Retry(after, reason):
                return wire.retried(message, self._queue, after, reason)
            case Park(name, reason):
                return wire.parked(message, self._queue, name, reason)
            case DeadLetter(reason):
                return wire.dead(message, self._queue, reason)

    async def close(self) -> None:
        if self._running is None:
            return
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        self._running = None
        with suppress(*_FAULTS):
            await self._cancel_subscription()
        await asyncio.gather(*self._handling, return_exceptions=True)
        if self._channel is not None:
            with suppress(*_FAULTS):
                await self._channel.close()

    async def _cancel_subscription(self) -> None:
        if self._channel is not None and self._tag is not None and not self._channel.is_closed:
            underlay = await self._channel.get_underlay_channel()
            await underlay.basic_cancel(self._tag)
