"""Declares a topology on RabbitMQ: durable topic exchanges, quorum queues, parking queues, dead letters."""

from dataclasses import dataclass
from typing import Any

from aio_pika.abc import AbstractChannel, AbstractConnection
from aio_pika.exceptions import ChannelNotFoundEntity, ChannelPreconditionFailed

from opilio.contracts.topology import DEAD_LETTERS, Queue, Topology
from opilio.logs import get_logger

log = get_logger(__name__)
_QUORUM = {"x-queue-type": "quorum"}


@dataclass(frozen=True, slots=True)
class Difference:
    """A queue that exists with other arguments than Opilio declares."""

    queue: str
    said: str
    messages: int


def queue_arguments(queue: Queue) -> dict[str, dict[str, Any]]:
    """The queues that belong to one queue, in the order of their declaration, with their arguments."""
    names: dict[str, dict[str, Any]] = {}
    dead = {}
    if queue.dead_letters:
        names[queue.dead_letter_queue] = dict(_QUORUM)
        dead = {
            "x-dead-letter-exchange": DEAD_LETTERS,
            "x-dead-letter-routing-key": queue.dead_letter_queue,
        }
    names[queue.name] = _QUORUM | dead
    for parked in queue.parking:
        names[queue.parking_queue(parked)] = dict(_QUORUM)
    return names


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
        for name, arguments in queue_arguments(queue).items():
            await self._queue(name, arguments)
        if queue.dead_letters:
            await self._bind(queue.dead_letter_queue, DEAD_LETTERS, queue.dead_letter_queue)
        for binding in queue.bindings:
            await self._bind(queue.name, binding.exchange, binding.pattern)

    async def differences(self, topology: Topology) -> list[Difference]:
        """The queues that exist with other arguments; creates nothing."""
        found = []
        for queue in topology.queues:
            for name, arguments in queue_arguments(queue).items():
                if (differs := await self._difference(name, arguments)) is not None:
                    found.append(differs)
        return found

    async def _difference(self, name: str, arguments: dict[str, Any]) -> Difference | None:
        channel = await self._open_channel()
        try:
            existing = await channel.declare_queue(name, passive=True)
        except ChannelNotFoundEntity:
            return None
        try:
            await channel.declare_queue(name, durable=True, arguments=arguments)
        except ChannelPreconditionFailed as error:
            return Difference(name, str(error), existing.declaration_result.message_count or 0)
        return None

    async def declare_delay(self, queue: Queue, name: str) -> None:
        """Declares one delay queue when it is first needed; its messages have their own TTL."""
        back = {
            **_QUORUM,
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
            await channel.declare_queue(name, durable=True, arguments=arguments)
        except ChannelPreconditionFailed as error:
            log.warning("rabbitmq.queue_differs", queue=name, error=str(error))

    async def _bind(self, queue: str, exchange: str, pattern: str) -> None:
        channel = await (await self._open_channel()).get_underlay_channel()
        await channel.queue_bind(queue, exchange, pattern)

    async def _open_channel(self) -> AbstractChannel:
        if self._channel is None or self._channel.is_closed:
            self._channel = await self._connection.channel(publisher_confirms=False)
        return self._channel
