"""UUIDs (RFC 9562): of version 7, which sort by time, for ids that are made before the row is stored, and of version 4, which are secret."""

import os
import random
import time
from datetime import datetime
from uuid import UUID

import msgspec

_VERSION, _VARIANT, _LOW = 0x7 << 76, 0x2 << 62, (1 << 62) - 1
_RANDOM = bytes(0x40 | byte & 0x0F for byte in range(256))  # where a version 4 says that it is one
_STANDARD = bytes(0x80 | byte & 0x3F for byte in range(256))


def uuid7() -> UUID:
    milliseconds = time.time_ns() // 1_000_000
    chance = random.getrandbits(74)  # unique, not secret; seeded from the system, again in every process
    number = milliseconds << 80 | _VERSION | (chance >> 62) << 64 | _VARIANT | chance & _LOW
    return msgspec.convert(number.to_bytes(16, "big"), UUID)  # makes it in C


def random_uuids(count: int) -> bytes:
    """Version 4, one after the other, 16 bytes each: the system is asked once for all of them."""
    found = bytearray(os.urandom(16 * count))
    found[6::16] = found[6::16].translate(_RANDOM)
    found[8::16] = found[8::16].translate(_STANDARD)
    return bytes(found)


def oldest_uuid7(at: datetime) -> UUID:
    """The smallest UUIDv7 that could be made at a moment: a bound for lists that are ordered by id."""
    return UUID(int=int(at.timestamp() * 1000) << 80)
