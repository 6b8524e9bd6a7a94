"""Value alerts for people: what fired, with the product's name and the values before and after."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from opilio.adapters.postgres import Database, Row, load_queries

_Q = load_queries("opilio.insights")
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class FiredAlert(msgspec.Struct, kw_only=True):
    """The newest firing of an alert for one policy; the values are known once the event is logged."""

    alert_id: UUID
    name: str
    policy_id: UUID
    title: str
    url: str
    at: datetime
    currency: str | None
    field: str | None = None
    old: Any = None
    new: Any = None
    percent: float | None = None


class FiredAlerts:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def newest(self, alert_ids: Sequence[UUID], most: int = 20) -> list[FiredAlert]:
        rows = await self._db.fetch(_Q.fired_alerts, alert_ids=list(alert_ids), most=most)
        return [_fired(row) for row in rows]


def _fired(row: Row) -> FiredAlert:
    event = _decode(row["body"])["data"] if row["body"] else {}
    return FiredAlert(
        alert_id=row["alert_id"],
        name=row["name"],
        policy_id=row["policy_id"],
        title=row["title"],
        url=row["url"],
        at=row["fired_at"],
        currency=row["currency"],
        field=event.get("field"),
        old=event.get("old"),
        new=event.get("new"),
        percent=float(event["percent"]) if event.get("percent") is not None else None,
    )
