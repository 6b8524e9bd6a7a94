"""Reads the event log: lists, single events, and a tail that follows new ones."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from opilio.adapters.postgres import Database, Row, Statement
from opilio.contracts.webhooks import Event
from opilio.delivery.sql import QUERIES
from opilio.delivery.webhooks import filters
from opilio.errors import NotFound
from opilio.loop import wait_for
from opilio.pages import Page, page_of, read_number

CHANNEL = "opilio_events"
_PAGE = 1000
_PACE, _POLL = 0.1, 5.0  # seconds: least and most between two looks


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
        conditions: dict[str, Any] = {
            "before": read_number(cursor),
            "type_regex": filters.to_regex(filters.checked(types)) if types else None,
            "since": since,
            "most": limit + 1,
        }
        if subject is None:
            rows = await self._db.fetch(QUERIES.list_events, **conditions)
        else:
            rows = await self._db.fetch(QUERIES.list_events_of_subject, subject=subject, **conditions)
        return page_of(rows, limit, _event, lambda row: row["seq"])

    async def get(self, event_id: UUID) -> Event:
        row = await self._db.row(QUERIES.find_event, event_id=event_id)
        if row is None:
            raise NotFound("There is no event %(id)s in the log.", id=event_id)
        return _event(row)

    async def tail(
        self, *, types: list[str] | None = None, since: datetime | None = None
    ) -> AsyncIterator[Event]:
        """Events as they are handed on, each once; from now on, or those logged from a time on."""
        regex = filters.to_regex(filters.checked(types)) if types else None
        woken = asyncio.Event()
        subscription = await self._db.listen([CHANNEL], lambda _channel, _payload: woken.set())
        try:
            seen = await self._relayed()
            if since:
                async for event in self._pages(QUERIES.handed_on_since, regex, now=seen, since=since):
                    yield event
            while True:
                woken.clear()
                now = await self._relayed()
                async for event in self._pages(QUERIES.relayed_between, regex, now=now, before=seen):
                    yield event
                seen = now
                await asyncio.sleep(_PACE)
                await wait_for(woken, _POLL)
        finally:
            await subscription.close()

    async def _relayed(self) -> str:
        """The places in the log that were handed on, as PostgreSQL writes them."""
        relayed: str = await self._db.value(QUERIES.relayed_places)
        return relayed

    async def _pages(self, statement: Statement, regex: str | None, **params: Any) -> AsyncIterator[Event]:
        after = -1
        while True:
            rows = await self._db.fetch(statement, after=after, type_regex=regex, most=_PAGE, **params)
            for row in rows:
                yield _event(row)
            if len(rows) < _PAGE:
                return
            after = rows[-1]["seq"]


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
