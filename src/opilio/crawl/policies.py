"""Creates, imports, changes and deletes policies, each change with its audit row in the same transaction."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
import msgspec
from msgspec import UNSET

from opilio import audit
from opilio.adapters.postgres import Database, Row, Session
from opilio.clock import Clock
from opilio.contracts.policies import ImportRow, PolicyInput, PolicyPatch, Schedule
from opilio.crawl import policy as rules
from opilio.crawl.priority import choose_queue
from opilio.crawl.sql import QUERIES
from opilio.crawl.url import CrawlUrl, normalise
from opilio.errors import Conflict, Invalid, NotFound
from opilio.net.allowed_addresses import AllowList


class Draft(NamedTuple):
    """One row of an import, read but not yet checked; `patch` has only the fields that the row gave."""

    row: int
    url: str
    patch: PolicyPatch


class CheckedDrafts(NamedTuple):
    """What of an import can be saved, in groups without a URL twice, and the answers to what cannot."""

    groups: list[list[tuple[int, CrawlUrl, PolicyPatch]]]
    refused: list[ImportRow]


class Policies:
    def __init__(
        self, database: Database, *, allow: AllowList | None = None, clock: Clock | None = None
    ) -> None:
        self._db = database
        self._allow = allow or AllowList()
        self._clock = clock or Clock()

    async def create(self, wanted: PolicyInput, by: str = audit.SYSTEM) -> UUID:
        rules.check(wanted)
        url = normalise(wanted.url, self._allow)
        patch = PolicyPatch(**{field: getattr(wanted, field) for field in PolicyInput.__struct_fields__})

        async def work(session: Session) -> Row:
            saved = (await self._save(session, [(1, url, patch)], update=False))[1]
            if saved["status"] == "created":
                details = {"url": url.url}
                await audit.record(session, by, "policy.create", str(saved["policy_id"]), details)
            return saved

        saved = await self._db.transact(work)
        policy_id: UUID = saved["policy_id"]
        if saved["status"] == "exists":
            raise Conflict(
                "a policy for %(url)s exists already; change it with PATCH /api/v1/policies/%(policy_id)s",
                details={"id": str(policy_id)},
                url=url.url,
                policy_id=str(policy_id),
            )
        return policy_id

    async def import_drafts(self, drafts: Iterable[Draft], by: str = audit.SYSTEM) -> list[ImportRow]:
        """Creates or updates, each row answered. A URL that is in the list twice is created, then updated."""
        return await self.import_checked(self.check_drafts(drafts), by)

    async def import_checked(self, checked: CheckedDrafts, by: str = audit.SYSTEM) -> list[ImportRow]:
        answers = list(checked.refused)
        for group in checked.groups:
            saved = await self._db.transact(partial(self._import, rows=group, by=by))
            answers += [ImportRow(row=row, url=url.url, status=saved[row]["status"]) for row, url, _ in group]
        return sorted(answers, key=attrgetter("row"))

    async def preview_checked(self, checked: CheckedDrafts) -> list[ImportRow]:
        """What `import_checked` would answer, without a write; a URL that is in the list twice is created twice."""
        urls = [url.url for group in checked.groups[:1] for _, url, _ in group]  # it has every URL once
        known = {row["url"] for row in await self._db.fetch(QUERIES.known_urls, urls=urls)} if urls else set()
        answers = [
            ImportRow(row=row, url=url.url, status="updated" if url.url in known else "created")
            for group in checked.groups
            for row, url, _ in group
        ]
        return sorted([*checked.refused, *answers], key=attrgetter("row"))

    def check_drafts(self, drafts: Iterable[Draft]) -> CheckedDrafts:
        """Needs no database and no event loop: an import does it in a thread."""
        good: list[tuple[int, CrawlUrl, PolicyPatch]] = []
        refused: list[ImportRow] = []
        for draft in drafts:
            try:
                url = normalise(draft.url, self._allow)
                rules.check(draft.patch)
                good.append((draft.row, url, draft.patch))
            except Invalid as error:
                answer = ImportRow(row=draft.row, url=draft.url, status="rejected", error=error.message)
                refused.append(answer.refused_with(error))
        return CheckedDrafts(_without_repeats(good), refused)

    async def _import(
        self, session: Session, rows: Sequence[tuple[int, CrawlUrl, PolicyPatch]], by: str
    ) -> dict[int, Row]:
        saved = await self._save(session, rows, update=True)
        counts = Counter(row["status"] for row in saved.values())
        await audit.record(session, by, "policies.import", "policies", counts)
        await session.execute(QUERIES.notify_work)
        return saved

    async def _save(
        self, session: Session, rows: Sequence[tuple[int, CrawlUrl, PolicyPatch]], *, update: bool
    ) -> dict[int, Row]:
        await session.execute(QUERIES.add_hosts, names=sorted({url.host for _, url, _ in rows}))
        saved: dict[int, Row] = {}
        waiting = list(rows)
        while waiting:  # a URL that another import created meanwhile is neither known nor new: try again
            found = await session.fetch(
                QUERIES.save_policies,
                policies=[_values(*row) for row in waiting],
                update=update,
                now=self._clock.now(),
            )
            saved |= {row["row"]: row for row in found}
            waiting = [row for row in waiting if row[0] not in saved]
        if update:
            await self._follow(session, [(saved[row], patch) for row, _, patch in rows])
        adaptive = [saved[row]["policy_id"] for row, _, patch in rows if patch.schedule == "adaptive"]
        if adaptive:
            await session.execute(QUERIES.add_pools, policy_ids=adaptive)
        return saved

    async def _follow(self, session: Session, saved: Sequence[tuple[Row, PolicyPatch]]) -> None:
        """Moves the schedules and waiting jobs of policies that an import changed."""
        updated = [(row["policy_id"], patch) for row, patch in saved if row["status"] == "updated"]
        moved = [
            (policy_id, _given(patch.enabled), _given(patch.next_run_at))
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
        reread = [
            policy_id
            for policy_id, patch in updated
            if patch.rule_set is not UNSET or patch.crawl_config is not UNSET
        ]
        if reread:
            await session.execute(QUERIES.forget_validators, policy_ids=reread)
        pooled = [
            policy_id
            for policy_id, patch in updated
            if patch.schedule is not UNSET or patch.labels is not UNSET
        ]
        if pooled:
            await self._follow_schedules(session, pooled)

    async def _follow_schedules(self, session: Session, policy_ids: Sequence[UUID]) -> None:
        """Policies whose schedule or labels changed: another budget pays for them, or none."""
        await session.execute(QUERIES.add_pools, policy_ids=list(policy_ids))
        await session.execute(QUERIES.follow_schedules, policy_ids=list(policy_ids), now=self._clock.now())

    async def _schedule(
        self, session: Session, changes: Sequence[tuple[UUID, bool | None, datetime | None]]
    ) -> None:
        await session.execute(
            QUERIES.set_schedules,
            policy_ids=[policy_id for policy_id, _, _ in changes],
            enabled=[enabled for _, enabled, _ in changes],
            next_runs=[next_run for _, _, next_run in changes],
            now=self._clock.now(),
        )

    async def change(self, policy_id: UUID, patch: PolicyPatch, by: str = audit.SYSTEM) -> None:
        async def work(session: Session) -> None:
            await self._change(session, policy_id, patch)
            await audit.record(session, by, "policy.change", str(policy_id), msgspec.to_builtins(patch))
            await session.execute(QUERIES.notify_work)

        await self._db.transact(work)

    async def _change(self, session: Session, policy_id: UUID, patch: PolicyPatch) -> None:
        row = await session.row(QUERIES.take_policy, policy_id=policy_id)
        if row is None:
            raise NotFound("there is no policy %(id)s", id=str(policy_id))
        given = _given_fields(patch)
        wanted = PolicyInput(**({field: row[field] for field in PolicyInput.__struct_fields__} | given))
        rules.check(wanted)
        url = normalise(wanted.url, self._allow) if "url" in given else CrawlUrl(row["url"], row["host"])
        await session.execute(QUERIES.add_hosts, names=[url.host])
        try:
            await session.execute(QUERIES.change_policy, policy_id=policy_id, **_fields(wanted, url))
        except asyncpg.UniqueViolationError:
            raise Conflict("another policy has the URL %(url)s", url=url.url) from None
        await session.execute(QUERIES.move_jobs, policy_ids=[policy_id])
        if "enabled" in given or "next_run_at" in given:
            await self._schedule(session, [(policy_id, given.get("enabled"), given.get("next_run_at"))])
        if given.keys() & {"url", "rule_set", "crawl_config"}:
            await session.execute(QUERIES.forget_validators, policy_ids=[policy_id])
        if "schedule" in given or "labels" in given:
            await self._follow_schedules(session, [policy_id])

    async def set_enabled(self, policy_ids: Sequence[UUID], *, enabled: bool, by: str = audit.SYSTEM) -> None:
        changes = [(policy_id, enabled, None) for policy_id in policy_ids]

        async def work(session: Session) -> None:
            await self._schedule(session, changes)
            await _record(session, by, "enable" if enabled else "disable", policy_ids)
            await session.execute(QUERIES.notify_work)

        await self._db.transact(work)

    async def set_schedule(
        self, policy_ids: Sequence[UUID], schedule: Schedule, by: str = audit.SYSTEM
    ) -> None:
        """Switches to `adaptive` or back to `fixed`; what was learnt stays either way."""

        async def work(session: Session) -> None:
            await session.execute(QUERIES.set_schedule, policy_ids=list(policy_ids), schedule=schedule)
            await self._follow_schedules(session, policy_ids)
            await _record(session, by, f"schedule_{schedule}", policy_ids)
            await session.execute(QUERIES.notify_work)

        await self._db.transact(work)

    async def delete(self, policy_ids: Sequence[UUID], by: str = audit.SYSTEM) -> list[UUID]:
        """Answers which of them existed."""

        async def work(session: Session) -> list[UUID]:
            rows = await session.fetch(
                QUERIES.delete_policies, policy_ids=list(policy_ids), now=self._clock.now()
            )
            gone = [row["policy_id"] for row in rows]
            await _record(session, by, "delete", gone)
            return gone

        return await self._db.transact(work)


async def _record(session: Session, by: str, action: str, policy_ids: Sequence[UUID]) -> None:
    if len(policy_ids) == 1:
        await audit.record(session, by, f"policy.{action}", str(policy_ids[0]))
    elif policy_ids:
        await audit.record(session, by, f"policies.{action}", "policies", {"ids": list(policy_ids)})


def _given_fields(patch: PolicyPatch) -> dict[str, Any]:
    fields = {name: getattr(patch, name) for name in patch.__struct_fields__}
    return {name: value for name, value in fields.items() if value is not UNSET}


def _values(row: int, url: CrawlUrl, patch: PolicyPatch) -> dict[str, Any]:
    """A row of `save_policies`: fields of the patch that are not given are left out."""
    values: dict[str, Any] = msgspec.to_builtins(patch, builtin_types=(datetime, Decimal))
    return values | {"row": row, "url": url.url, "host": url.host, "job_queue": _queue(patch)}


def _queue(patch: PolicyPatch) -> str:
    return choose_queue(_given(patch.queue), _given(patch.crawl_config) or {})


def _given(value: Any) -> Any:
    return None if value is UNSET else value


def _without_repeats(
    rows: Sequence[tuple[int, CrawlUrl, PolicyPatch]],
) -> list[list[tuple[int, CrawlUrl, PolicyPatch]]]:
    """In groups, so that no URL is twice in one statement."""
    groups: list[list[tuple[int, CrawlUrl, PolicyPatch]]] = []
    seen: Counter[str] = Counter()
    for row in rows:
        group = seen[row[1].url]
        seen[row[1].url] += 1
        if group == len(groups):
            groups.append([])
        groups[group].append(row)
    return groups


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
        "schedule": policy.schedule,
        "min_interval": policy.min_interval_hours,
        "max_interval": policy.max_interval_hours,
    }
