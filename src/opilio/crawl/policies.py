"""Keeps policies: create, import, change, delete; thousands in one statement."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import asyncpg
from msgspec import UNSET

from opilio.adapters.postgres import Database, Row, Session
from opilio.clock import Clock
from opilio.contracts.policies import ImportRow, PolicyInput, PolicyPatch
from opilio.crawl import policy as rules
from opilio.crawl.lock_end import QUERIES
from opilio.crawl.priority import choose_queue
from opilio.crawl.url import CrawlUrl, normalise
from opilio.errors import Conflict, Invalid, NotFound
from opilio.net.allowed_addresses import AllowList


@dataclass(frozen=True, slots=True)
class Draft:
    """One row of an import, read but not yet checked; `patch` says only what the row said."""

    row: int
    url: str
    patch: PolicyPatch


class Policies:
    def __init__(
        self, database: Database, *, allow: AllowList | None = None, clock: Clock | None = None
    ) -> None:
        self._db = database
        self._allow = allow or AllowList()
        self._clock = clock or Clock()

    async def create(self, wanted: PolicyInput) -> UUID:
        rules.check(wanted)
        url = normalise(wanted.url, self._allow)
        said = PolicyPatch(**{field: getattr(wanted, field) for field in PolicyInput.__struct_fields__})
        saved = await self._db.transact(lambda session: self._save(session, [(1, url, said)], update=False))
        if saved[1]["status"] == "exists":
            raise Conflict(
                f"a policy for {url.url} exists already; change it with PATCH /api/v1/policies/{saved[1]['policy_id']}",
                details={"id": str(saved[1]["policy_id"])},
            )
        policy_id: UUID = saved[1]["policy_id"]
        return policy_id

    async def import_drafts(self, drafts: Iterable[Draft]) -> list[ImportRow]:
        """Creates or updates, each row answered. A URL that stands twice is created, then updated."""
        answers: dict[int, ImportRow] = {}
        good: list[tuple[int, CrawlUrl, PolicyPatch]] = []
        for draft in drafts:
            try:
                good.append((draft.row, normalise(draft.url, self._allow), checked(draft.patch)))
            except Invalid as error:
                answers[draft.row] = ImportRow(
                    row=draft.row, url=draft.url, status="rejected", error=error.message
                )
        for turn in _turns(good):
            saved = await self._db.transact(partial(self._save, rows=turn, update=True))
            for row, url, _ in turn:
                answers[row] = ImportRow(row=row, url=url.url, status=saved[row]["status"])
        return [answers[row] for row in sorted(answers)]

    async def _save(
        self, session: Session, rows: Sequence[tuple[int, CrawlUrl, PolicyPatch]], *, update: bool
    ) -> dict[int, Row]:
        await session.execute(QUERIES.add_hosts, names=sorted({url.host for _, url, _ in rows}))
        saved: dict[int, Row] = {}
        waiting = list(rows)
        while waiting:  # a URL that another import created meanwhile is neither known nor new: look again
            found = await session.fetch(
                QUERIES.save_policies, update=update, now=self._clock.now(), **_columns(waiting)
            )
            saved |= {row["row"]: row for row in found}
            waiting = [row for row in waiting if row[0] not in saved]
        if update:
            await self._follow(session, [(saved[row], patch) for row, _, patch in rows])
        return saved

    async def _follow(self, session: Session, saved: Sequence[tuple[Row, PolicyPatch]]) -> None:
        """Schedules and waiting jobs follow the policies that an import changed."""
        updated = [(row["policy_id"], patch) for row, patch in saved if row["status"] == "updated"]
        moved = [
            (policy_id, _said(patch.enabled), _said(patch.next_run_at))
            for policy_id, patch in updated
            if patch.enabled is not UNSET or patch.next_run_at is not UNSET
        ]
        if moved:
            await self._schedule(session, moved)
        requeued = [
            policy_id
            for policy_id, patch in updated
            if patch.queue is not UNSET or patch.crawl_config is not UNSET
        ]
        if requeued:
            await session.execute(QUERIES.move_jobs, policy_ids=requeued)

    async def _schedule(
        self, session: Session, moved: Sequence[tuple[UUID, bool | None, datetime | None]]
    ) -> None:
        await session.execute(
            QUERIES.set_schedules,
            policy_ids=[policy_id for policy_id, _, _ in moved],
            enabled=[enabled for _, enabled, _ in moved],
            next_runs=[next_run for _, _, next_run in moved],
            now=self._clock.now(),
        )

    async def change(self, policy_id: UUID, patch: PolicyPatch) -> None:
        await self._db.transact(lambda session: self._change(session, policy_id, patch))

    async def _change(self, session: Session, policy_id: UUID, patch: PolicyPatch) -> None:
        row = await session.row(QUERIES.take_policy, policy_id=policy_id)
        if row is None:
            raise NotFound(f"there is no policy {policy_id}")
        said = {
            field: getattr(patch, field)
            for field in patch.__struct_fields__
            if getattr(patch, field) is not UNSET
        }
        wanted = PolicyInput(**({field: row[field] for field in PolicyInput.__struct_fields__} | said))
        rules.check(wanted)
        url = normalise(wanted.url, self._allow) if "url" in said else CrawlUrl(row["url"], row["host"])
        await session.execute(QUERIES.add_hosts, names=[url.host])
        try:
            await session.execute(QUERIES.change_policy, policy_id=policy_id, **_fields(wanted, url))
        except asyncpg.UniqueViolationError:
            raise Conflict(f"another policy has the URL {url.url}") from None
        await session.execute(QUERIES.move_jobs, policy_ids=[policy_id])
        if "enabled" in said or "next_run_at" in said:
            await self._schedule(session, [(policy_id, said.get("enabled"), said.get("next_run_at"))])

    async def switch(self, policy_ids: Sequence[UUID], *, enabled: bool) -> None:
        moved = [(policy_id, enabled, None) for policy_id in policy_ids]
        await self._db.transact(lambda session: self._schedule(session, moved))

    async def delete(self, policy_ids: Sequence[UUID]) -> list[UUID]:
        rows = await self._db.fetch(
            QUERIES.delete_policies, policy_ids=list(policy_ids), now=self._clock.now()
        )
        return [row["policy_id"] for row in rows]


def checked(patch: PolicyPatch) -> PolicyPatch:
    """Checks what a row says by the rules for a whole policy."""
    said = {
        field: getattr(patch, field)
        for field in patch.__struct_fields__
        if getattr(patch, field) is not UNSET
    }
    rules.check(PolicyInput(**({"url": "x"} | said)))
    return patch


def _said(value: Any) -> Any:
    return None if value is UNSET else value


def _turns(
    rows: Sequence[tuple[int, CrawlUrl, PolicyPatch]],
) -> list[list[tuple[int, CrawlUrl, PolicyPatch]]]:
    """Cut so that no URL stands twice in one statement."""
    turns: list[list[tuple[int, CrawlUrl, PolicyPatch]]] = []
    times: Counter[str] = Counter()
    for row in rows:
        turn = times[row[1].url]
        times[row[1].url] += 1
        if turn == len(turns):
            turns.append([])
        turns[turn].append(row)
    return turns


def _columns(rows: Sequence[tuple[int, CrawlUrl, PolicyPatch]]) -> dict[str, list[Any]]:
    patches = [patch for _, _, patch in rows]
    return {
        "rows": [number for number, _, _ in rows],
        "urls": [url.url for _, url, _ in rows],
        "hosts": [url.host for _, url, _ in rows],
        "enabled": [_said(p.enabled) for p in patches],
        "frequencies": [_said(p.frequency_hours) for p in patches],
        "priorities": [_said(p.priority) for p in patches],
        "max_retries": [_said(p.max_retries) for p in patches],
        "backoffs": [_said(p.retry_backoff_minutes) for p in patches],
        "timeouts": [_said(p.timeout_minutes) for p in patches],
        "queues": [_said(p.queue) for p in patches],
        "job_queues": [choose_queue(_said(p.queue), _said(p.crawl_config) or {}) for p in patches],
        "crawl_configs": [_said(p.crawl_config) for p in patches],
        "rule_sets": [_said(p.rule_set) for p in patches],
        "hots": [_said(p.hot) for p in patches],
        "labels": [_said(p.labels) for p in patches],
        "next_runs": [_said(p.next_run_at) for p in patches],
    }


def _fields(policy: PolicyInput, url: CrawlUrl) -> dict[str, Any]:
    return {
        "url": url.url,
        "host": url.host,
        "frequency": policy.frequency_hours,
        "priority": policy.priority,
        "max_retries": policy.max_retries,
        "backoff": policy.retry_backoff_minutes,
        "timeout": policy.timeout_minutes,
        "queue": policy.queue,
        "job_queue": choose_queue(policy.queue, policy.crawl_config),
        "crawl_config": policy.crawl_config,
        "rule_set": policy.rule_set,
        "hot": policy.hot,
        "labels": policy.labels,
    }
