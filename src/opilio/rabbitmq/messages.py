"""Messages as RabbitMQ carries them, and the headers that say where a message came from and why it moved."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from aio_pika.abc import AbstractIncomingMessage
from pamqp.commands import Basic

from opilio.bus import (
    CONTENT_ENCODING,
    CONTENT_TYPE,
    ORIGINAL_EXCHANGE,
    ORIGINAL_ROUTING_KEY,
    Headers,
    Message,
    Outgoing,
    read_retries,
    standard_headers,
)
from opilio.contracts.topology import DEAD_LETTERS, Queue

ADDED_BY_BROKER = ("x-death", "x-delivery-count", "x-acquired-count")
LONGEST_WAIT = timedelta(days=1)


def properties(message: Outgoing) -> Basic.Properties:
    wait = None if message.after is None else min(message.after, LONGEST_WAIT)
    return Basic.Properties(
        content_type=CONTENT_TYPE,
        content_encoding=CONTENT_ENCODING,
        delivery_mode=2,
        headers=standard_headers(message.headers),
        message_id=message.message_id,
        correlation_id=message.correlation_id,
        timestamp=datetime.now(UTC),
        expiration=None if wait is None else str(int(wait.total_seconds() * 1000)),
    )


def read(incoming: AbstractIncomingMessage, queue: Queue) -> Message:
    """The message with the exchange and routing key it was first published with."""
    headers: dict[str, Any] = dict(incoming.headers)
    exchange, routing_key = _origin(incoming, headers)
    deliveries = headers.get("x-delivery-count")
    if not isinstance(deliveries, int):
        deliveries = int(bool(incoming.redelivered))
    for name in [name for name in headers if name in ADDED_BY_BROKER or name.startswith("x-first-death-")]:
        del headers[name]
    retries, fault = read_retries(headers)
    return Message(
        body=incoming.body,
        queue=queue.name,
        exchange=exchange,
        routing_key=routing_key,
        message_id=incoming.message_id or str(uuid4()),
        correlation_id=incoming.correlation_id,
        headers=headers,
        deliveries=deliveries + 1,
        retries=retries,
        fault=fault,
    )


def _origin(incoming: AbstractIncomingMessage, headers: dict[str, Any]) -> tuple[str, str]:
    named = headers.pop(ORIGINAL_EXCHANGE, None), headers.pop(ORIGINAL_ROUTING_KEY, None)
    if isinstance(named[0], str) and isinstance(named[1], str):
        return named[0], named[1]
    try:  # the broker dead-lettered it by itself, and kept its origin in the oldest entry
        death = headers["x-death"][-1]
        return str(death["exchange"]), str(death["routing-keys"][0])
    except (KeyError, IndexError, TypeError):
        return incoming.exchange or "", incoming.routing_key or ""


def retried(message: Message, queue: Queue, after: timedelta, reason: str) -> Outgoing:
    headers = {"retry": True, "x-retries": message.retries + 1, "x-reason": reason}
    if "x-dead-letter-id" in message.headers:  # why it was dead-lettered is what people ask for
        headers["x-reason"] = message.headers.get("x-reason", reason)
    return _moved(message, "", queue.name, headers, after)


def parked(message: Message, queue: Queue, name: str, reason: str) -> Outgoing:
    return _moved(message, "", queue.parking_queue(name), {"x-reason": reason}, None)


def dead(message: Message, queue: Queue, reason: str) -> Outgoing:
    headers = {
        "x-reason": reason,
        "x-queue": queue.name,
        "x-dead-letter-queue": queue.dead_letter_queue,
        "x-dead-letter-id": str(uuid4()),
    }
    return _moved(message, DEAD_LETTERS, queue.dead_letter_queue, headers, None)


def _moved(message: Message, exchange: str, key: str, headers: Headers, after: timedelta | None) -> Outgoing:
    """The same message to another queue, with its origin in the headers."""
    origin = {ORIGINAL_EXCHANGE: message.exchange, ORIGINAL_ROUTING_KEY: message.routing_key}
    return Outgoing(
        exchange,
        key,
        message.body,
        {**message.headers, **origin, **headers},
        message.message_id,
        message.correlation_id,
        after,
    )
