"""Samples of events, exactly as they would be sent."""

from datetime import UTC, datetime
from uuid import UUID

import msgspec

from opilio.contracts.catalog import EventType
from opilio.delivery.outbox.envelope import envelope

_encode = msgspec.json.Encoder(decimal_format="number").encode


def sample(event: EventType) -> bytes:
    return envelope(
        event_id=UUID("0190a1b2-c3d4-7000-8000-00000000e7e7"),
        source="opilio",
        type_=event.name,
        subject=event.sample_subject,
        time=datetime(2026, 1, 31, 12, 0, tzinfo=UTC),
        data=_encode(event.sample).decode(),
    )
