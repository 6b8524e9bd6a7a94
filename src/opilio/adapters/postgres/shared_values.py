"""Values that are read and written for every job, as cheaply as asyncpg can.

The jobs of a batch share most of their timestamps and numbers, and making one is the dearest part of reading a row.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from struct import Struct
from typing import Any
from uuid import UUID

from asyncpg.pgproto import pgproto

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)  # PostgreSQL counts microseconds from here
_MICROSECOND = timedelta(microseconds=1)
_COUNT = Struct(">q")
_ENDLESS = {2**63 - 1: datetime.max, -(2**63): datetime.min}  # noqa: DTZ901 - without a zone, as asyncpg reads them
_SENT_ENDLESS = {moment: _COUNT.pack(count) for count, moment in _ENDLESS.items()}
_MOST = 4096


class _Shared(dict[Any, Any]):
    """Values by how the server sent them; one that was read a moment ago is not made again.

    A dict that asks only where it has nothing is twice as fast as `lru_cache`.
    """

    def __init__(self, read: Callable[[Any], Any]) -> None:
        self._read = read

    def __missing__(self, sent: Any) -> Any:
        if len(self) >= _MOST:
            self.clear()
        value = self[sent] = self._read(sent)
        return value


async def share_values(connection: Any) -> None:
    for kind, form, encode, decode in (
        ("timestamptz", "binary", _sent_moment, _MOMENTS.__getitem__),
        ("numeric", "text", str, _NUMBERS.__getitem__),
    ):
        await connection.set_type_codec(
            kind, schema="pg_catalog", format=form, encoder=encode, decoder=decode
        )


def own_uuids(ids: Iterable[UUID]) -> list[UUID]:
    """The same ids as asyncpg makes them: these are written and looked up in C, others in Python code."""
    return [pgproto.UUID(each.bytes) for each in ids]


def _moment(sent: bytes) -> datetime:
    (count,) = _COUNT.unpack(sent)
    endless = _ENDLESS.get(count)
    return endless if endless is not None else _EPOCH + timedelta(microseconds=count)


def _sent_moment(moment: datetime) -> bytes:
    return _SENT_ENDLESS.get(moment) or _COUNT.pack((moment.astimezone(UTC) - _EPOCH) // _MICROSECOND)


_MOMENTS = _Shared(_moment)
_NUMBERS = _Shared(Decimal)
