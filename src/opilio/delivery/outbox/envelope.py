"""The envelope of an event: CloudEvents 1.0, built once, as the bytes that are published, signed and kept."""

from datetime import datetime
from uuid import UUID

import msgspec

from opilio.contracts.events import CloudEvent

_encoder = msgspec.json.Encoder(uuid_format="canonical", decimal_format="number")


def envelope(*, event_id: UUID, source: str, type_: str, subject: str, time: datetime, data: str) -> bytes:
    """`data` is JSON text and goes in untouched, so that exact numbers stay exact."""
    return _encoder.encode(
        CloudEvent(
            id=str(event_id),
            source=source,
            type=type_,
            subject=subject,
            time=time,
            data=msgspec.Raw(data.encode()),
        )
    )
