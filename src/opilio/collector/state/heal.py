"""Rewrites what a cache has lost: an empty Redis, or one that came back without its last writes."""

from opilio.adapters.postgres import Database
from opilio.collector.sql import queries as sql
from opilio.collector.state.postgres import PostgresState
from opilio.collector.state.protocol import StateStore
from opilio.logs import get_logger

log = get_logger(__name__)
_DAY = 86_400.0


class Heal:
    """Compares versions, which is cheap, and publishes the states that differ."""

    def __init__(self, database: Database, state: StateStore, *, page: int = 1_000) -> None:
        self._db = database
        self._state = state
        self._page = page

    async def run_once(self) -> dict[str, int]:
        """All projects that may change, and those that changed in the last day."""
        rewritten, after = 0, ""
        while True:
            rows = await self._db.fetch(sql.recent_versions, after=after, seconds=_DAY, most=self._page)
            if not rows:
                break
            after = rows[-1]["project_id"]
            rewritten += await self._compare({row["project_id"]: row["version"] for row in rows})
        if rewritten:
            log.warning("collector.states_rewritten", projects=rewritten)
        return {"rewritten": rewritten}

    async def _compare(self, wanted: dict[str, int]) -> int:
        cached = await self._state.versions(list(wanted))
        behind = [name for name, version in wanted.items() if cached.get(name, -1) < version]
        if behind:
            await self._state.publish(await PostgresState(self._db).read_versioned(behind))
        return len(behind)
