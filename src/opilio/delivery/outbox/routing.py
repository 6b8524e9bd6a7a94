"""The two roads to the bus: through the broker's queue table, or straight into the local bus.

Both run inside the caller's transaction, so what is handed over and what it came from change together.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from opilio.adapters.local_bus import LocalBus
from opilio.adapters.postgres import Session, load_queries
from opilio.bus import Outgoing, standard_headers
from opilio.contracts.topology import EVENTS

sql = load_queries("opilio.delivery")
UNROUTABLE_QUEUE = "outbound.dlq"
WEBHOOKS_QUEUE = "webhooks.dlq"


@dataclass(frozen=True, slots=True)
class Parcel:
    """A message with its place in the order of its subject."""

    seq: int
    subject: str
    message: Outgoing


Route: TypeAlias = Callable[[Session, Sequence[Parcel]], Awaitable[None]]


async def to_broker(session: Session, parcels: Sequence[Parcel]) -> None:
    """Queues messages for the publisher, so that a broker that is away delays nothing but itself."""
    messages = [parcel.message for parcel in parcels]
    await session.fetch(
        sql.queue_for_broker,
        seqs=[parcel.seq for parcel in parcels],
        subjects=[parcel.subject for parcel in parcels],
        exchanges=[m.exchange for m in messages],
        routing_keys=[m.routing_key for m in messages],
        message_ids=[m.message_id for m in messages],
        correlation_ids=[m.correlation_id for m in messages],
        headers=[msgspec.json.encode(standard_headers(m.headers)).decode() for m in messages],
        bodies=[m.body for m in messages],
    )


def to_local_bus(bus: LocalBus, *, events: str = EVENTS) -> Route:
    """Puts messages into the local queues bound for them."""

    async def route(session: Session, parcels: Sequence[Parcel]) -> None:
        messages = [parcel.message for parcel in parcels]
        outcomes = await bus.route(session, messages)
        await bury(session, [m for m, lost in zip(messages, outcomes, strict=True) if lost], events=events)

    return route


async def bury(session: Session, unroutable: Sequence[Outgoing], *, events: str) -> int:
    """Dead-letters what no queue is bound for. An event that nobody listens for is no fault: it is in the log."""
    lost = [message for message in unroutable if message.exchange != events]
    if lost:
        await session.execute(
            sql.bury_unroutable,
            queue=UNROUTABLE_QUEUE,
            exchanges=[m.exchange for m in lost],
            routing_keys=[m.routing_key for m in lost],
            message_ids=[m.message_id for m in lost],
            correlation_ids=[m.correlation_id for m in lost],
            headers=[msgspec.json.encode(dict(m.headers)).decode() for m in lost],
            bodies=[m.body for m in lost],
        )
    return len(unroutable) - len(lost)
