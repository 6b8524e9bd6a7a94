"""The two ways to the bus: the table that the publisher reads, or the queues of the local bus.

Both run inside the caller's transaction, so that a message and its cause are committed together.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import msgspec

from opilio.adapters.postgres import Session
from opilio.bus import Outgoing, Unpublishable, Unroutable, standard_headers
from opilio.contracts.topology import EVENTS
from opilio.delivery.sql import QUERIES

UNROUTABLE_QUEUE = "outbound.dlq"
WEBHOOKS_QUEUE = "webhooks.dlq"


@dataclass(frozen=True, slots=True)
class OutboxMessage:
    """A message with its position in the order of its subject."""

    seq: int
    subject: str
    message: Outgoing


Route: TypeAlias = Callable[[Session, Sequence[OutboxMessage]], Awaitable[None]]


class TransactionalBus(Protocol):
    """A bus that publishes inside a database transaction: the local one."""

    async def route(self, session: Session, messages: Sequence[Outgoing]) -> list[Unpublishable | None]: ...


async def to_broker(session: Session, outgoing: Sequence[OutboxMessage]) -> None:
    """Queues messages for the publisher, so that a broker that is down holds up nothing else."""
    messages = [each.message for each in outgoing]
    await session.fetch(
        QUERIES.queue_for_broker,
        seqs=[each.seq for each in outgoing],
        subjects=[each.subject for each in outgoing],
        exchanges=[m.exchange for m in messages],
        routing_keys=[m.routing_key for m in messages],
        message_ids=[m.message_id for m in messages],
        correlation_ids=[m.correlation_id for m in messages],
        headers=[msgspec.json.encode(standard_headers(m.headers)).decode() for m in messages],
        bodies=[m.body for m in messages],
    )


def to_local_bus(bus: TransactionalBus, *, events: str = EVENTS) -> Route:
    """Puts messages into the local queues that are bound for them."""

    async def route(session: Session, outgoing: Sequence[OutboxMessage]) -> None:
        messages = [each.message for each in outgoing]
        results = await bus.route(session, messages)
        await dead_letter_unpublished(session, messages, results, events=events)

    return route


async def dead_letter_unpublished(
    session: Session,
    messages: Sequence[Outgoing],
    results: Sequence[Unpublishable | None],
    *,
    events: str,
) -> None:
    """Dead-letters what the bus refused. An event that no queue is bound for is no fault: it is in the log."""
    refused = [
        (message, str(reason))
        for message, reason in zip(messages, results, strict=True)
        if reason and not (message.exchange == events and isinstance(reason, Unroutable))
    ]
    if refused:
        lost = [message for message, _ in refused]
        await session.execute(
            QUERIES.dead_letter_unpublished,
            queue=UNROUTABLE_QUEUE,
            reasons=[reason for _, reason in refused],
            exchanges=[m.exchange for m in lost],
            routing_keys=[m.routing_key for m in lost],
            message_ids=[m.message_id for m in lost],
            correlation_ids=[m.correlation_id for m in lost],
            headers=[msgspec.json.encode(dict(m.headers)).decode() for m in lost],
            bodies=[m.body for m in lost],
        )
