"""Consumes a queue with a prefetch that follows the size of its messages: brokers bound it by count alone."""

from collections.abc import Awaitable, Callable

from opilio.bus import Bus, Consumer, Handler, Message, Verdict

_MAX_BYTES = 64 << 20
_LARGEST = 16 << 20  # what RabbitMQ 4 takes unless it is told otherwise
_LEAST, _MOST = 2, 200


def prefetch_for(largest: int, max_bytes: int = _MAX_BYTES) -> int:
    """As many messages of the largest size as fit into the memory that is allowed."""
    return min(max(max_bytes // max(largest, 1), _LEAST), _MOST)


class BoundedConsumer:
    """Subscribes again when messages became much larger or smaller than the prefetch is made for."""

    def __init__(self, bus: Bus, queue: str, handler: Handler, *, max_bytes: int = _MAX_BYTES) -> None:
        self._bus = bus
        self._queue = queue
        self._handler = handler
        self._max_bytes = max_bytes
        self._largest = 0  # bytes of the largest message since the last look
        self._consumer: Consumer | None = None
        self.prefetch = prefetch_for(_LARGEST, max_bytes)  # until a size is known
        # Called when messages are too large for the prefetch, so that it is adapted at once.
        self.on_growth: Callable[[], None] = lambda: None

    async def start(self) -> None:
        self._consumer = await self._bus.consume(self._queue, self._handle, prefetch=self.prefetch)

    def _handle(self, message: Message) -> Awaitable[Verdict]:
        if len(message.body) > self._largest:
            self._largest = len(message.body)
            if self._largest * self.prefetch > 2 * self._max_bytes:
                self.on_growth()
        return self._handler(message)

    async def adapt(self) -> dict[str, int]:
        """Messages that were taken are finished before more are asked for: never more than one prefetch is held."""
        largest, self._largest = self._largest, 0
        if not largest or self._consumer is None:
            return {"resubscribed": 0}
        wanted = prefetch_for(largest, self._max_bytes)
        if self.prefetch // 2 < wanted < self.prefetch * 2:
            return {"resubscribed": 0}
        await self._consumer.close()
        self.prefetch = wanted
        await self.start()
        return {"resubscribed": 1}

    async def close(self) -> None:
        if self._consumer is not None:
            await self._consumer.close()
