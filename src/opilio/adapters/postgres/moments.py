"""Timestamps on hot connections: the jobs of a batch share most of theirs, and making one is the dearest part of reading a row."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)  # PostgreSQL counts microseconds from here
_MICROSECOND = timedelta(microseconds=1)
_ENDLESS = {2**63 - 1: datetime.max, -(2**63): datetime.min}  # noqa: DTZ901 - without a zone, as asyncpg reads them
_PARTS = {moment: (parts,) for parts, moment in _ENDLESS.items()}


async def share_moments(connection: Any) -> None:
    """A timestamp that was read a moment ago is not made again."""
    await connection.set_type_codec(
        "timestamptz", schema="pg_catalog", format="tuple", encoder=_parts, decoder=_moment
    )


@lru_cache(maxsize=4096)
def _moment(parts: tuple[int]) -> datetime:
    endless = _ENDLESS.get(parts[0])
    return endless if endless is not None else _EPOCH + timedelta(microseconds=parts[0])


def _parts(moment: datetime) -> tuple[int]:
    return _PARTS.get(moment) or ((moment.astimezone(UTC) - _EPOCH) // _MICROSECOND,)
