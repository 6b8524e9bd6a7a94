"""Reads the event log: lists, single events, and a tail that follows new ones."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec

from opilio.adapters.postgres import Database, Row
from opilio.contracts.webhooks import Event
from opilio.delivery.sql import QUERIES
from opilio.delivery.webhooks import filters
from opilio.errors import NotFound
from opilio.pages import Page, page_of, read_number

CHANNEL = "opilio_events"
# Relays commit concurrently, so an older event can appear after a newer one: the tail looks back this far.
_LOOK_BACK = timedelta(seconds=5)
_REMEMBERED = 20_000


class Events:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def page(
        self,
        *,
        limit: int = 100,
        cursor: str | None = None,
        types: list[str] | None = None,
        subject: str | None = None,
        since: datetime | None = None,
    ) -> Page[Event]:
        rows = await self._db.fetch(
            QUERIES.list_events,
            before=read_number(cursor),
            type_regex=filters.to_regex(filters.checked(types)) if types else None,
            subject=subject,
            since=since,
            most=limit + 1,
        )
        return page_of(rows, limit, _event, lambda row: row["seq"])

    async def get(self, event_id: UUID) -> Event:
        row = await self._db.row(QUERIES.find_event, event_id=event_id)
        if row is None:
            raise NotFound("There is no event %(id)s in the log.", id=event_id)
        return _event(row)

    async def tail(
        self, *, types: list[str] | None = None, since: datetime | None = None
    ) -> AsyncIterator[Event]:
        """Events as they are logged, each once; from now on, or from a time on."""
        regex = filters.to_regex(filters.checked(types)) if types else None
        woken = asyncio.Event()
        listener = await self._db.listen([CHANNEL], lambda _channel, _payload: woken.set())
        seen: OrderedDict[int, None] = OrderedDict()
        start = since or datetime.now(UTC)
        newest = start
        try:
            while True:
                woken.clear()
                while rows := await self._unseen(newest, start, regex, seen):
                    for row in rows:
                        newest = max(newest, row["logged_at"])
                        yield _event(row)
                try:
                    async with asyncio.timeout(5):
                        await woken.wait()
                except TimeoutError:
                    continue
        finally:
            await listener.close()

    async def _unseen(
        self, newest: datetime, start: datetime, regex: str | None, seen: OrderedDict[int, None]
    ) -> list[Row]:
        rows = await self._db.fetch(
            QUERIES.recent_events,
            since=max(start, newest - _LOOK_BACK),
            type_regex=regex,
            most=_REMEMBERED // 2,
        )
        fresh = [row for row in rows if row["seq"] not in seen]
        for row in fresh:
            seen[row["seq"]] = None
        while len(seen) > _REMEMBERED:
            seen.popitem(last=False)
        return fresh


def _event(row: Row) -> Event:
    return Event(
        id=row["event_id"],
        seq=row["seq"],
        type=row["type"],
        subject=row["subject"],
        time=row["occurred_at"],
        logged_at=row["logged_at"],
        event=msgspec.Raw(row["body"]),
    )
