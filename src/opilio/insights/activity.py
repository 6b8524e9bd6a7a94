"""What bots, hosts and webhooks did over time."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from opilio.adapters.postgres import Database, load_queries
from opilio.ids import oldest_uuid7

_Q = load_queries("opilio.insights")
_WEEK = timedelta(days=7)
_DAY = timedelta(hours=24)


class Activity:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def bot(self, bot_id: str) -> list[dict[str, Any]]:
        """The last week, hour by hour."""
        return [dict(row) for row in await self._db.fetch(_Q.bot_history, bot_id=bot_id, span=_WEEK)]

    async def bot_errors(self, bot_id: str) -> list[dict[str, Any]]:
        return [dict(row) for row in await self._db.fetch(_Q.bot_errors, bot_id=bot_id)]

    async def host(self, host: str) -> list[dict[str, Any]]:
        """The last day, hour by hour."""
        # A job that ends within the day may have been created before it.
        oldest = oldest_uuid7(datetime.now(UTC) - _DAY - timedelta(hours=6))
        rows = await self._db.fetch(_Q.host_history, host=host, span=_DAY, oldest=oldest)
        return [dict(row) for row in rows]

    async def webhook(self, endpoint_id: UUID) -> list[dict[str, Any]]:
        """The last day, hour by hour."""
        oldest = oldest_uuid7(datetime.now(UTC) - _DAY - timedelta(hours=1))
        rows = await self._db.fetch(_Q.webhook_history, endpoint_id=endpoint_id, span=_DAY, oldest=oldest)
        return [dict(row) for row in rows]

    async def cooling(self, hosts: Sequence[str]) -> dict[str, datetime]:
        rows = await self._db.fetch(_Q.cooling_of_hosts, hosts=list(set(hosts)))
        return {row["host"]: row["cooling_until"] for row in rows}
