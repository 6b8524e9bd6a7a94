"""UUIDs (RFC 9562): of version 7, which sort by time, for ids that are made before the row is stored, and of version 4, which are secret."""

import os
import random
import time
from datetime import datetime
from uuid import UUID

import msgspec

_TIMED = bytes(0x70 | byte & 0x0F for byte in range(256))  # where a version 7 says that it is one
_RANDOM = bytes(0x40 | byte & 0x0F for byte in range(256))
_STANDARD = bytes(0x80 | byte & 0x3F for byte in range(256))


def uuid7() -> UUID:
    return uuid7s(1)[0]


def uuid7s(count: int) -> list[UUID]:
    """Of the same millisecond; many at once take a quarter of the time."""
    found = bytearray(
        random.randbytes(16 * count)
    )  # unique, not secret; seeded from the system, again in every process
    for place, byte in enumerate((time.time_ns() // 1_000_000).to_bytes(6, "big")):
        found[place::16] = bytes([byte]) * count
    marked = _marked(found, _TIMED)
    return msgspec.convert([marked[at : at + 16] for at in range(0, 16 * count, 16)], list[UUID])


def random_uuids(count: int) -> bytes:
    """Version 4, one after the other, 16 bytes each: the system is asked once for all of them."""
    return _marked(bytearray(os.urandom(16 * count)), _RANDOM)


def _marked(found: bytearray, version: bytes) -> bytes:
    found[6::16] = found[6::16].translate(version)
    found[8::16] = found[8::16].translate(_STANDARD)
    return bytes(found)


def oldest_uuid7(at: datetime) -> UUID:
    """The smallest UUIDv7 that could be made at a moment: a bound for lists that are ordered by id."""
    return UUID(int=int(at.timestamp() * 1000) << 80)
