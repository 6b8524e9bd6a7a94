"""UUIDs of version 7, which sort by time (RFC 9562), for ids that are made before the row is stored."""

import random
import time
from datetime import datetime
from uuid import UUID

_VERSION, _VARIANT, _LOW = 0x7 << 76, 0x2 << 62, (1 << 62) - 1


def uuid7() -> UUID:
    milliseconds = time.time_ns() // 1_000_000
    chance = random.getrandbits(74)  # unique, not secret; seeded from the system, again in every process
    return UUID(int=milliseconds << 80 | _VERSION | (chance >> 62) << 64 | _VARIANT | chance & _LOW)


def oldest_uuid7(at: datetime) -> UUID:
    """The smallest UUIDv7 that could be made at a moment: a bound for lists that are ordered by id."""
    return UUID(int=int(at.timestamp() * 1000) << 80)
