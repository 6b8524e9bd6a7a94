"""Prices: the trend of a product, the changes of a span of time, histories to compare."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from opilio.adapters.postgres import Database, Row, load_queries
from opilio.insights.search import MOST_LIKE, policies_like, policies_of_host

_Q = load_queries("opilio.insights")
_POINTS = 60
# No index can put changes in order by their size; so many of the newest are sorted and counted, and the page says so.
BOUND = 5_000
_BATCH = 2_000
MAX_COMPARED = 5


class PriceFilter(msgspec.Struct, kw_only=True, frozen=True):
    """Chooses price changes; fields that are not set choose all."""

    host: str | None = None
    q: str | None = None
    label_key: str | None = None
    label_value: str | None = None
    least: float | None = None
    direction: str | None = None


@dataclass(frozen=True, slots=True)
class PriceTrend:
    """The newest prices of one policy, oldest first, and how they moved (0.05 is +5 %)."""

    points: tuple[tuple[datetime, Decimal], ...]
    last_change: float | None
    changed_at: datetime | None
    week: float | None
    month: float | None

    @property
    def spark(self) -> list[float]:
        return [float(price) for _, price in self.points]


def trend(points: Sequence[tuple[datetime, Decimal]], now: datetime) -> PriceTrend:
    """From the price points of one policy, oldest first."""
    if not points:
        return PriceTrend((), None, None, None, None)
    current = points[-1][1]
    previous = points[-2][1] if len(points) > 1 else None
    return PriceTrend(
        tuple(points),
        _change(previous, current),
        points[-1][0] if previous is not None else None,
        _change(_price_at(points, now - timedelta(days=7)), current),
        _change(_price_at(points, now - timedelta(days=30)), current),
    )


def _price_at(points: Sequence[tuple[datetime, Decimal]], at: datetime) -> Decimal | None:
    """The price that held at a moment; the first known one if the history begins later, if it is old enough."""
    before = [price for moment, price in points if moment <= at]
    if before:
        return before[-1]
    # A history of six days says something about a week; one of six hours does not.
    reaches = points[0][0] - at < (points[-1][0] - at) * 0.25
    return points[0][1] if reaches else None


def _change(old: Decimal | None, new: Decimal) -> float | None:
    return float((new - old) / old) if old else None


class Prices:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def trends(self, policy_ids: Sequence[UUID], now: datetime) -> dict[UUID, PriceTrend]:
        rows = await self._db.fetch(_Q.price_points, ids=list(policy_ids), most=_POINTS)
        points: dict[UUID, list[tuple[datetime, Decimal]]] = {}
        for row in reversed(rows):
            points.setdefault(row["policy_id"], []).append((row["at"], row["price"]))
        return {policy_id: trend(points.get(policy_id, []), now) for policy_id in policy_ids}

    async def changes(
        self,
        chosen: PriceFilter,
        *,
        since: datetime,
        sort: str,
        page: int,
        size: int,
        reverse: bool = False,
    ) -> list[Row]:
        """A page of changes and one row more, if there is one."""
        fields = msgspec.structs.asdict(chosen)
        fields["policy_ids"] = await self._policies(chosen)
        async with self._db.transaction() as session:
            await session.execute(_Q.plan_for_these_values)
            return await session.fetch(
                _Q.price_changes,
                since=since,
                sort=sort,
                reverse=reverse,
                bound=BOUND,
                most=size + 1,
                skip=(page - 1) * size,
                **fields,
            )

    async def _policies(self, chosen: PriceFilter) -> list[UUID] | None:
        """The policies whose changes a filter chooses, if it says and if they are few."""
        if chosen.q is not None:
            found = await policies_like(self._db, chosen.q, most=MOST_LIKE + 1)
            if len(found) <= MOST_LIKE:
                return found
        if chosen.host is None:
            return None
        async with self._db.session() as session:
            return await policies_of_host(session, chosen.host)

    async def all_changes(
        self, chosen: PriceFilter, *, since: datetime, sort: str, reverse: bool = False
    ) -> AsyncIterator[Sequence[Row]]:
        """Every change that a page could show, for a file."""
        for page in range(1, BOUND // _BATCH + 1):
            rows = await self.changes(chosen, since=since, sort=sort, reverse=reverse, page=page, size=_BATCH)
            yield rows[:_BATCH]
            if len(rows) <= _BATCH:
                return

    async def count(self, since: datetime) -> Row:
        row = await self._db.row(_Q.count_price_changes, since=since, bound=BOUND)
        assert row is not None
        return row

    async def histories(self, policy_ids: Sequence[UUID]) -> list[dict[str, Any]]:
        rows = await self._db.fetch(_Q.price_histories, ids=list(policy_ids)[:MAX_COMPARED])
        return [dict(row) for row in rows]

    async def stock(self, policy_id: UUID) -> list[dict[str, Any]]:
        rows = await self._db.fetch(_Q.stock_changes, policy_id=policy_id)
        return [dict(row) for row in reversed(rows)]

    async def failures(self, policy_id: UUID) -> list[dict[str, Any]]:
        return [dict(row) for row in await self._db.fetch(_Q.failed_crawls, policy_id=policy_id)]
