"""UUIDs of version 7, which sort by time (RFC 9562), for ids that are made before the row is stored."""

import os
import time
from datetime import datetime
from uuid import UUID


def uuid7() -> UUID:
    milliseconds = time.time_ns() // 1_000_000
    value = milliseconds << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return UUID(int=value)


def oldest_uuid7(at: datetime) -> UUID:
    """The smallest UUIDv7 that could be made at a moment: a bound for lists that are ordered by id."""
    return UUID(int=int(at.timestamp() * 1000) << 80)
