"""Read queries of the dashboard: system status, series for charts, filtered lists."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any
from uuid import UUID

import msgspec

from opilio.adapters.postgres import Database, Row, Session, load_queries
from opilio.insights.search import MOST_LIKE, policies_like, policies_of_host

_Q = load_queries("opilio.insights")
_COUNT_EXACTLY = 100_000
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
RETRY_BUCKETS = ("0", "1", "2", "3", "4", "5+")
DURATION_BUCKETS = ("< 0.5", "< 1", "< 2", "< 5", "< 10", "< 30", "< 60", "60+")
# Span and step of the charts: never more than a few hundred points.
SPANS = {
    "1h": (timedelta(hours=1), timedelta(minutes=1)),
    "24h": (timedelta(hours=24), timedelta(minutes=10)),
    "7d": (timedelta(days=7), timedelta(hours=1)),
    "30d": (timedelta(days=30), timedelta(hours=6)),
}


class QueueState(msgspec.Struct, kw_only=True):
    queue: str
    waiting: int
    bot_seen_at: datetime | None


class CoolingHost(msgspec.Struct, kw_only=True):
    host: str
    cooling_until: datetime
    cooling_reason: str | None
    waiting: int


class TroubledWebhook(msgspec.Struct, kw_only=True):
    endpoint_id: UUID
    url: str
    status: str
    status_reason: str | None
    failures: int
    failing_since: datetime | None


class Span(msgspec.Struct, kw_only=True):
    """Finished jobs of a span of time."""

    done: int
    failed: int
    expired: int
    crawls: int
    seconds: float
    minutes: int

    @property
    def ended(self) -> int:
        return self.done + self.failed + self.expired

    @property
    def success_rate(self) -> float | None:
        return self.done / self.ended if self.ended else None

    @property
    def mean_seconds(self) -> float | None:
        return self.seconds / self.crawls if self.crawls else None


class SystemStatus(msgspec.Struct, kw_only=True):
    """The state of the system, now."""

    at: datetime
    pending: int
    locked: int
    exact: bool
    overrun: int
    due: int
    oldest_due: float
    oldest_waiting: float
    bots_alive: int
    bots: int
    hosts_cooling: int
    outbox: int
    oldest_outbox: float
    webhooks: int
    dead_letters: int
    projects: int
    any_policy: bool
    any_result: bool
    price_changes: int
    last_minute: dict[str, int]
    hour: Span
    day: Span
    queues: list[QueueState]
    cooling: list[CoolingHost]
    troubled_webhooks: list[TroubledWebhook]
    error_codes: dict[str, int]


class PolicyFilter(msgspec.Struct, kw_only=True, frozen=True):
    """Chooses policies; without conditions all of them."""

    enabled: bool | None = None
    host: str | None = None
    q: str | None = None
    queue: str | None = None
    is_hot: bool | None = None
    failing: bool | None = None
    due: bool | None = None
    label_key: str | None = None
    label_value: str | None = None
    policy_ids: list[UUID] | None = None

    @property
    def is_of_state(self) -> bool:
        """Whether it has only conditions on what crawls change."""
        found = self.policy_ids is not None  # also if a search found nothing
        return not any((self.host, self.q, self.queue, self.is_hot is not None, self.label_key, found))


class JobFilter(msgspec.Struct, kw_only=True, frozen=True):
    """Chooses jobs."""

    status: str | None = None
    host: str | None = None
    policy_id: UUID | None = None
    bot_id: str | None = None
    error: str | None = None
    q: str | None = None
    finished_since: datetime | None = None
    finished_until: datetime | None = None
    policy_ids: list[UUID] | None = None


class Choice(msgspec.Struct, kw_only=True, frozen=True):
    """The rows of a bulk action: an id range, so that rows created meanwhile are excluded; or selected rows."""

    after: UUID | None = None
    until: UUID | None = None
    ids: list[UUID] | None = None


class Watched(msgspec.Struct, frozen=True):
    """What an open page shows."""

    jobs: frozenset[UUID] = frozenset()
    policies: frozenset[UUID] = frozenset()
    projects: frozenset[str] = frozenset()

    def __or__(self, other: "Watched") -> "Watched":
        return Watched(self.jobs | other.jobs, self.policies | other.policies, self.projects | other.projects)

    def __iter__(self) -> Iterator[UUID | str]:
        return chain(self.jobs, self.policies, self.projects)

    def version(self, marks: Mapping[UUID | str, str]) -> str:
        """Changes when any of the watched things does."""
        content = "\n".join(sorted(f"{thing}={marks.get(thing, '')}" for thing in self))
        return hashlib.sha256(content.encode()).hexdigest()[:16]


class Figures:
    def __init__(self, database: Database) -> None:
        self._db = database

    # ── the whole ────────────────────────────────────────────────────────────────────────────────

    async def system_status(self) -> SystemStatus:
        async with self._db.session() as session:
            row = await session.row(_Q.system_status, most=_COUNT_EXACTLY)
            assert row is not None
            lately = await session.fetch(_Q.ended_lately)
            until = await _counted_until(session)
            hour = await session.row(_Q.figures_since, span=timedelta(hours=1), counted_until=until)
            day = await session.row(_Q.figures_since, span=timedelta(hours=24), counted_until=until)
            queues = await session.fetch(_Q.queues_waiting)
            cooling = await session.fetch(_Q.cooling_hosts, most=5)
            webhooks = await session.fetch(_Q.webhooks_in_trouble)
            codes = await session.fetch(_Q.error_codes)
        figures = dict(row)
        estimate, active = figures.pop("active_estimate"), figures.pop("active")
        exact = active < _COUNT_EXACTLY
        pending = (active if exact else max(active, estimate)) - figures["locked"]
        return SystemStatus(
            pending=pending,
            exact=exact,
            last_minute={"done": 0, "failed": 0, "expired": 0} | {r["status"]: r["jobs"] for r in lately},
            hour=_struct(Span, hour),
            day=_struct(Span, day),
            queues=[_struct(QueueState, r) for r in queues],
            cooling=[_struct(CoolingHost, r) for r in cooling],
            troubled_webhooks=[_struct(TroubledWebhook, r) for r in webhooks],
            error_codes={r["code"]: r["jobs"] for r in codes},
            **figures,
        )

    async def usual_span(self, now: datetime) -> str:
        """The span that fits the age of the data: an hour on the first day, a day afterwards."""
        oldest: datetime | None = await self._db.value(_Q.oldest_minute)
        return "1h" if oldest is None or now - oldest < timedelta(hours=2) else "24h"

    async def series(self, span: str) -> list[dict[str, Any]]:
        length, step = SPANS[span]
        async with self._db.transaction() as session:
            await session.execute(_Q.plan_for_these_values)
            until = await _counted_until(session)
            rows = await session.fetch(_Q.series, span=length, step=step, counted_until=until)
        return [dict(row) for row in rows]

    async def histograms(self, span: str) -> dict[str, dict[str, int]]:
        rows = await self._db.fetch(_Q.histogram_since, span=SPANS[span][0])
        found = {(row["kind"], row["place"]): row["n"] for row in rows}
        return {
            kind: {name: found.get((kind, place), 0) for place, name in enumerate(names, 1)}
            for kind, names in (("retries", RETRY_BUCKETS), ("durations", DURATION_BUCKETS))
        }

    async def marks(self, watched: Watched) -> dict[UUID | str, str]:
        """A version for each thing that open pages show; it changes when the thing does."""
        rows: list[Row] = []
        for statement, ids in (
            (_Q.watched_jobs, watched.jobs),
            (_Q.watched_policies, watched.policies),
            (_Q.watched_projects, watched.projects),
        ):
            if ids:
                rows += await self._db.fetch(statement, ids=list(ids))
        return {row["id"]: row["mark"] for row in rows}

    # ── lists ────────────────────────────────────────────────────────────────────────────────────

    async def policies(
        self, chosen: PolicyFilter, *, sort: str, page: int, size: int, reverse: bool = False
    ) -> list[Row]:
        """A page of policies and one row more, if there is one."""
        fields = msgspec.structs.asdict(chosen)
        async with self._db.transaction() as session:
            await session.execute(_Q.plan_for_these_values)
            return await session.fetch(
                _Q.policy_list,
                sort=sort,
                reverse=reverse,
                by_state=sort == "next" and not reverse and chosen.is_of_state,
                most=size + 1,
                skip=(page - 1) * size,
                **fields,
            )

    async def policy_ids(
        self, chosen: PolicyFilter, choice: Choice, most: int, *, in_order: bool = True
    ) -> list[UUID]:
        """Ids of policies, oldest first; any of them if only their number matters."""
        fields = msgspec.structs.asdict(chosen) | msgspec.structs.asdict(choice) | {"in_order": in_order}
        async with self._db.transaction() as session:
            await session.execute(_Q.plan_for_these_values)
            return [row["id"] for row in await session.fetch(_Q.policy_ids, most=most, **fields)]

    async def job_ids(
        self, chosen: JobFilter, choice: Choice, most: int, *, in_order: bool = True
    ) -> list[tuple[UUID, str]]:
        """Ids and states of jobs, oldest first; any of them if only their number matters."""
        fields = fields_of(await self.search_jobs(chosen))
        fields |= msgspec.structs.asdict(choice)
        rows: list[Row] = []
        async with self._db.transaction() as session:
            await session.execute(_Q.plan_for_these_values)
            if chosen.status not in ("done", "failed", "expired"):
                rows += await session.fetch(_Q.waiting_job_ids, most=most, **fields)
            if chosen.status not in ("pending", "locked"):
                rows += await session.fetch(_Q.ended_job_ids, most=most, in_order=in_order, **fields)
        return sorted((row["id"], row["status"]) for row in rows)[:most]

    async def search_policies(self, chosen: PolicyFilter) -> PolicyFilter:
        """The same filter with the ids that its text means, if they are few: so they are searched for once."""
        if chosen.q is None:
            return chosen
        found = await policies_like(self._db, chosen.q, most=MOST_LIKE + 1, with_deleted=False)
        few = len(found) <= MOST_LIKE
        return msgspec.structs.replace(chosen, q=None, policy_ids=found) if few else chosen

    async def search_jobs(self, chosen: JobFilter) -> JobFilter:
        """The same filter with the ids of the policies that its text or its host means."""
        if chosen.policy_ids is not None or (chosen.q is None and chosen.host is None):
            return chosen
        if chosen.q is not None:
            found: list[UUID] | None = await policies_like(self._db, chosen.q)
            return msgspec.structs.replace(chosen, q=None, policy_ids=found)
        assert chosen.host is not None
        async with self._db.session() as session:
            found = await policies_of_host(session, chosen.host)
        return msgspec.structs.replace(chosen, policy_ids=found)

    async def policies_like(self, q: str | None) -> list[UUID] | None:
        """The policies that a search for jobs or results means; None if nothing is searched for."""
        return None if q is None else await policies_like(self._db, q)

    async def names(self, kind: str, ids: Sequence[UUID]) -> dict[UUID, str]:
        """What people call some policies or jobs: the product, or else the URL."""
        statement = _Q.policy_names if kind == "policies" else _Q.job_names
        return {row["id"]: row["name"] for row in await self._db.fetch(statement, ids=list(ids))}

    async def hosts(
        self,
        *,
        q: str | None,
        cooling: bool | None,
        page: int,
        size: int,
        sort: str = "attention",
        reverse: bool = False,
    ) -> list[Row]:
        async with self._db.transaction() as session:
            await session.execute(_Q.plan_for_these_values)
            return await session.fetch(
                _Q.host_list,
                q=q,
                cooling=cooling,
                sort=sort,
                reverse=reverse,
                most=size + 1,
                skip=(page - 1) * size,
            )

    async def error_rates(self, hosts: Sequence[str]) -> dict[str, float]:
        rows = await self._db.fetch(_Q.error_rate_of_hosts, hosts=list(hosts))
        return {row["host"]: row["error_rate"] for row in rows}

    async def bot_hours(self, bots: Sequence[str]) -> dict[str, list[Row]]:
        rows = await self._db.fetch(_Q.bot_hours, bots=list(bots))
        return {bot: [row for row in rows if row["bot_id"] == bot] for bot in bots}

    async def events_to_resend(self, endpoint_id: UUID, since: datetime) -> int:
        """How many events an endpoint would get again; counting stops at a bound."""
        count: int = await self._db.value(
            _Q.events_to_resend, endpoint_id=endpoint_id, since=since, most=_COUNT_EXACTLY
        )
        return count

    # ── the values of a policy ───────────────────────────────────────────────────────────────────

    async def fields(self, policy_id: UUID) -> list[str]:
        return [row["field"] for row in await self._db.fetch(_Q.fields_of_policy, policy_id=policy_id)]

    async def values(self, policy_id: UUID, field: str) -> list[dict[str, Any]]:
        rows = await self._db.fetch(_Q.values_of_policy, policy_id=policy_id, field=field)
        return [dict(row) for row in rows]

    async def last_values(self, policy_id: UUID) -> Row | None:
        return await self._db.row(_Q.last_values, policy_id=policy_id)


async def _counted_until(session: Session) -> datetime:
    until: datetime | None = await session.value(_Q.counted_until)
    return until or _LONG_AGO


def fields_of(chosen: JobFilter) -> dict[str, Any]:
    """A filter of jobs, whose text was searched for, as the statements name it."""
    fields = msgspec.structs.asdict(chosen)
    assert fields.pop("q") is None, "search first"
    return fields


def _struct(kind: Any, row: Row | None) -> Any:
    assert row is not None
    return kind(**dict(row))


class SavedViews:
    """Filters saved under a name."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def all(self, page: str | None = None) -> list[Row]:
        return await self._db.fetch(_Q.saved_views, page=page)

    async def save(self, page: str, name: str, query: str, by: str) -> UUID:
        view_id: UUID = await self._db.value(_Q.save_view, page=page, name=name, query=query, by=by)
        return view_id

    async def delete(self, view_id: UUID) -> int:
        return await self._db.execute(_Q.delete_view, view_id=view_id)
