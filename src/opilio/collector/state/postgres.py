"""Project state in PostgreSQL, for the embedded default: every count is one transaction."""

from collections.abc import Sequence
from typing import Any

from opilio.adapters.postgres import Database, Row, Session, load_queries
from opilio.collector.state.protocol import Change, Counted
from opilio.collector.tally import COUNTERS, Tally
from opilio.contracts.projects import ProjectState

sql = load_queries("opilio.collector")


class PostgresState:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def open(self, project_id: str, state: ProjectState) -> None:
        await self._db.execute(
            sql.open_state,
            project_id=project_id,
            tasks_total=state.tasks_total,
            items_expected=state.items_expected,
        )

    async def count(self, tallies: Sequence[Tally]) -> list[Counted]:
        return await self._db.transact(lambda session: self._count(session, tallies), hot=True)

    async def _count(self, session: Session, tallies: Sequence[Tally]) -> list[Counted]:
        project_ids = sorted({tally.project_id for tally in tallies})
        locked = await session.fetch(sql.lock_states, project_ids=project_ids)
        known = {row["project_id"] for row in locked}
        once = {(t.project_id, t.identity): t for t in reversed(tallies) if t.project_id in known}
        rows = await session.fetch(sql.count_tallies, **_columns(list(once.values())))
        fresh = {(row["project_id"], row["identity"]) for row in rows}
        answers = []
        for tally in tallies:
            key = (tally.project_id, tally.identity)
            if tally.project_id not in known:
                answers.append(Counted.UNKNOWN)
            else:
                answers.append(Counted.COUNTED if key in fresh else Counted.REPEATED)
            fresh.discard(key)  # the same one again in this batch is a repetition
        return answers

    async def read(self, project_id: str) -> ProjectState | None:
        row = await self._db.row(sql.read_state, project_id=project_id)
        return None if row is None else ProjectState(**row)

    async def changes(self, most: int) -> list[Change]:
        rows = await self._db.fetch(sql.changed_states, most=most)
        return [_change(row) for row in rows]

    async def told(self, changes: Sequence[Change]) -> None:
        project_ids = [change.project_id for change in changes]
        versions = [change.version for change in changes]

        async def mark(session: Session) -> None:
            await session.fetch(sql.lock_states, project_ids=project_ids)
            await session.execute(sql.told_states, project_ids=project_ids, versions=versions)

        await self._db.transact(mark)

    async def forget(self, project_ids: Sequence[str]) -> None:
        await self._db.execute(sql.forget_counted, project_ids=list(project_ids))

    async def close(self) -> None:
        """Nothing of its own is open: the database belongs to the caller."""


def _columns(tallies: Sequence[Tally]) -> dict[str, list[Any]]:
    numbers = {name: [getattr(tally, name) for tally in tallies] for name in COUNTERS}
    return {
        "project_ids": [tally.project_id for tally in tallies],
        "identities": [tally.identity for tally in tallies],
        **numbers,
    }


def _change(row: Row) -> Change:
    fields = dict(row)
    return Change(fields.pop("project_id"), fields.pop("version"), ProjectState(**fields))
