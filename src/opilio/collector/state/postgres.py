"""Project state in PostgreSQL, where it is counted."""

from collections.abc import Mapping, Sequence

from opilio.adapters.postgres import Database, Row
from opilio.collector.sql import queries as sql
from opilio.collector.state.protocol import VersionedState
from opilio.contracts.projects import ProjectState


class PostgresState:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def read(self, project_id: str) -> ProjectState | None:
        found = await self.read_versioned([project_id])
        return found[0].state if found else None

    async def read_versioned(self, project_ids: Sequence[str]) -> list[VersionedState]:
        rows = await self._db.fetch(sql.read_states, project_ids=list(project_ids))
        return [versioned(row) for row in rows]

    async def publish(self, states: Sequence[VersionedState]) -> None:
        """Nothing to do: what was committed is readable."""

    async def versions(self, project_ids: Sequence[str]) -> Mapping[str, int]:
        return {one.project_id: one.version for one in await self.read_versioned(project_ids)}

    async def close(self) -> None:
        """Closes nothing: the database belongs to the caller."""


def versioned(row: Row) -> VersionedState:
    """A row of `project_state` with its version."""
    fields = dict(row)
    return VersionedState(fields.pop("project_id"), fields.pop("version"), ProjectState(**fields))
