"""Recounts projects from their recorded tasks and batches, and repairs counters and cache."""

from dataclasses import dataclass

from opilio.adapters.postgres import Database, Row, Session
from opilio.collector.record_results import add_to_states
from opilio.collector.sql import queries as sql
from opilio.collector.state.postgres import PostgresState
from opilio.collector.state.protocol import StateStore
from opilio.collector.tally import COUNTERS, Tally
from opilio.contracts.projects import Difference
from opilio.errors import NotFound

_PAGE = 200


@dataclass(slots=True)
class Reconcile:
    """What the collector does by itself, on demand and with a report."""

    database: Database
    state: StateStore

    async def one(self, project_id: str) -> list[Difference]:
        if not await PostgresState(self.database).read_versioned([project_id]):
            raise NotFound("there is no project %(id)s", id=project_id)
        return await self._page([project_id])

    async def unfinished(self) -> list[Difference]:
        """All projects that are not done."""
        differences: list[Difference] = []
        after = ""
        while rows := await self.database.fetch(sql.unfinished_projects, after=after, most=_PAGE):
            after = rows[-1]["project_id"]
            differences += await self._page([row["project_id"] for row in rows])
        return differences

    async def _page(self, project_ids: list[str]) -> list[Difference]:
        differences = await self.database.transact(lambda session: _recount(session, project_ids))
        truth = await PostgresState(self.database).read_versioned(project_ids)
        for one in truth:
            cached = await self.state.read(one.project_id)
            for name in one.state.__struct_fields__:
                was = getattr(cached, name, None)
                if was != getattr(one.state, name):
                    differences.append(
                        Difference(
                            project_id=one.project_id,
                            where="cache",
                            field=name,
                            was=was,
                            now=getattr(one.state, name),
                        )
                    )
        await self.state.publish(truth)
        return differences


async def _recount(session: Session, project_ids: list[str]) -> list[Difference]:
    await session.fetch(sql.lock_states, project_ids=sorted(project_ids))
    differences: list[Difference] = []
    gains: dict[str, Tally] = {}
    for row in await session.fetch(sql.recounted, project_ids=project_ids):
        gain = _gain(row)
        if gain:
            gains[row["project_id"]] = gain
            differences += [
                Difference(
                    project_id=row["project_id"],
                    where="counters",
                    field=name,
                    was=row[name],
                    now=row[name] + getattr(gain, name),
                )
                for name in COUNTERS
                if getattr(gain, name)
            ]
    await add_to_states(session, gains)
    return differences


def _gain(row: Row) -> Tally:
    """What the rows add up to, minus what the counters say; every successful item is to be analysed."""
    true = {
        name: row[f"true_{name}"] if name != "analyze_total" else row["true_items_actual"]
        for name in COUNTERS
    }
    return Tally(**{name: true[name] - row[name] for name in COUNTERS})
