"""Brings pages forward whose siblings changed; outside of the submit, folder by folder."""

from collections.abc import Sequence
from datetime import datetime

from opilio.adapters.postgres import Database, Row, Session
from opilio.clock import Clock
from opilio.crawl.adaptive.change_rate import Rate
from opilio.crawl.adaptive.reschedule import SHORTEST_HOURS
from opilio.crawl.adaptive.siblings import MOST_PAGES, Sibling, hurried
from opilio.crawl.sql import QUERIES

_MOST_FOLDERS = 100
_DAY = 86400.0


class SiblingChanges:
    def __init__(self, database: Database, clock: Clock | None = None) -> None:
        self._db = database
        self._clock = clock or Clock()

    async def run_once(self) -> int:
        """Looks at the folders in which a page changed; answers how many pages were brought forward."""
        return await self._db.transact(self._hurry)

    async def _hurry(self, session: Session) -> int:
        changes = await session.fetch(QUERIES.take_sibling_changes, most=_MOST_FOLDERS)
        if not changes:
            return 0
        rows = await session.fetch(
            QUERIES.folder_pages,
            host_ids=[row["host_id"] for row in changes],
            folders=[row["folder"] for row in changes],
            most=MOST_PAGES + 1,
            now=self._clock.now(),
        )
        folders: list[list[Row]] = [[] for _ in changes]
        for row in rows:
            folders[row["number"] - 1].append(row)
        worth = [
            policy_id
            for change, pages in zip(changes, folders, strict=True)
            for policy_id in _worth(pages, change)
        ]
        if not worth:
            return 0
        return int(await session.value(QUERIES.hurry, policy_ids=worth, now=self._clock.now()) or 0)


def _worth(rows: Sequence[Row], change: Row) -> list[object]:
    if not rows:
        return []
    now = rows[0]["at"].timestamp() / _DAY
    found = hurried([_sibling(row, now) for row in rows], change["siblings"], change["mean"], now)
    return [rows[index]["policy_id"] for index in found]


def _sibling(row: Row, now: float) -> Sibling:
    last = _days(row["last_success_at"])
    # A page with a job, or one that may not be visited again yet, counts as due: there is nothing to bring forward.
    held = row["due_at"] is None or now - last < (row["min_interval_hours"] or SHORTEST_HOURS) / 24
    return Sibling(
        last=last,
        due=now if held else _days(row["due_at"]),
        interval=row["interval_days"],
        rate=Rate(row["shape"], row["days"]),
        surprise=row["surprise"],
        gap=row["gap_days"] or 0.0,
    )


def _days(at: datetime) -> float:
    return at.timestamp() / _DAY
