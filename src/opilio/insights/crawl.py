"""Questions about policies, jobs, results, hosts and bots."""

import heapq
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from opilio.adapters.postgres import Database, Row, Session, load_queries
from opilio.contracts.management import (
    BotInfo,
    CoolingPeriod,
    FullHost,
    FullResult,
    HistoryRow,
    Host,
    Job,
    LateRow,
    Result,
    Stats,
    TimelineRow,
)
from opilio.contracts.policies import Policy, PolicyInput
from opilio.crawl.adaptive.change_rate import posterior
from opilio.crawl.adaptive.forecast import describe
from opilio.crawl.adaptive.reschedule import learnt_of, prior_of, terms_of
from opilio.crawl.politeness import Limits
from opilio.crawl.priority import Rules
from opilio.crawl.pull import BOT_CAP
from opilio.errors import NotFound
from opilio.insights.search import is_rare_bot, policies_of_host
from opilio.insights.why import Explanation, Facts, explain
from opilio.pages import Page, page_of, read_number, read_text, read_uuid

_Q = load_queries("opilio.insights")
_COUNT_EXACTLY = 200_000
_NONE_ENDED = {"done": 0, "failed": 0, "expired": 0}
_WEEK = timedelta(days=7)
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
T = TypeVar("T", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class LastHour:
    """Jobs that ended in the last hour; no rates where none ended."""

    jobs: dict[str, int]
    success_rate: float | None
    retry_rate: float | None


def _adaptive(row: Row) -> str | None:
    if row["pool"] is None or row["interval_days"] is None:
        return None
    rate = posterior(learnt_of(row).evidence, prior_of(row))
    return describe(rate, row["interval_days"], terms_of(row).longest)


class CrawlInsights:
    def __init__(self, database: Database, *, rules: Rules, fleet: Limits, bot_cap: int = BOT_CAP) -> None:
        self._db = database
        self._rules = rules
        self._fleet = fleet
        self._bot_cap = bot_cap

    # ── policies ─────────────────────────────────────────────────────────────────────────────────

    async def policies(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
        enabled: bool | None = None,
        host: str | None = None,
        q: str | None = None,
        label: tuple[str, str] | None = None,
    ) -> Page[Any]:
        key, value = label or (None, None)
        rows = await self._db.fetch(
            _Q.policies,
            before=read_uuid(cursor),
            enabled=enabled,
            host=host,
            q=q,
            label_key=key,
            label_value=value,
            most=limit + 1,
        )
        return page_of(rows, limit, _structs(Policy), lambda row: row["id"])

    async def policy(self, policy_id: UUID) -> Policy:
        row = await self._db.row(_Q.policy, policy_id=policy_id)
        if row is None:
            raise NotFound("there is no policy %(id)s", id=str(policy_id))
        return Policy(**row)

    async def export(self, *, batch: int = 5_000) -> AsyncIterator[list[PolicyInput]]:
        """Every policy, oldest first, as an import reads it."""
        after: UUID | None = None
        while rows := await self._db.fetch(_Q.policies_to_export, after=after, most=batch):
            yield [PolicyInput(**{name: row[name] for name in PolicyInput.__struct_fields__}) for row in rows]
            after = rows[-1]["policy_id"]

    async def policy_why(self, policy_id: UUID) -> Explanation:
        row = await self._db.row(_Q.why_facts, policy_id=policy_id, bot_cap=self._bot_cap)
        if row is None or row["deleted_at"] is not None:
            raise NotFound("there is no policy %(id)s", id=str(policy_id))
        return explain(self._facts(row), row["at"])

    def _facts(self, row: Row) -> Facts:
        return Facts(
            enabled=row["enabled"],
            next_run_at=row["next_run_at"],
            host=row["host"],
            limits=Limits(row["max_concurrent"], row["min_delay_seconds"]).over(self._fleet),
            host_next_at=row["next_at"],
            cooling_until=row["cooling_until"],
            cooling_reason=row["cooling_reason"],
            held=row["held"],
            queue=row["queue"] or row["job_queue"],
            bot_seen_at=row["bot_seen_at"],
            bot_below_cap=row["bot_below_cap"],
            bot_cap=self._bot_cap,
            active=row["job_id"] is not None,
            place=row["place"],
            run_at=row["run_at"],
            retry_count=row["retry_count"] or 0,
            max_retries=row["max_retries"] or 0,
            locked_by=row["locked_by"],
            locked_until=row["locked_until"],
            adaptive=_adaptive(row),
            budget_per_day=row["budget_per_day"] if row["waits_in_pool"] is not None else None,
            brought_forward=row["brought_forward"],
        )

    async def history(
        self, policy_id: UUID, *, limit: int = 50, cursor: str | None = None, field: str | None = None
    ) -> Page[Any]:
        await self.policy(policy_id)
        before = read_number(cursor)
        rows = await self._db.fetch(
            _Q.history, policy_id=policy_id, field=field, before=before, most=limit + 1
        )
        return page_of(rows, limit, _structs(HistoryRow), lambda row: row["change_id"])

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────

    async def jobs(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
        status: str | None = None,
        host: str | None = None,
        policy_id: UUID | None = None,
        bot_id: str | None = None,
        policy_ids: Sequence[UUID] | None = None,
        error: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Page[Any]:
        """Newest first; a time span is about when they finished, so it leaves out active jobs."""
        params: dict[str, Any] = {
            "before": read_uuid(cursor),
            "status": status,
            "host": host,
            "policy_id": policy_id,
            "bot_id": bot_id,
            "policy_ids": policy_ids,
            "error": error,
            "since": since,
            "until": until,
            "most": limit + 1,
        }
        async with self._db.transaction() as session:
            # An unset filter must cost nothing, and a set one must find its index.
            await session.execute(_Q.plan_for_these_values)
            if host is not None and policy_ids is None and policy_id is None:
                params["policy_ids"] = await policies_of_host(session, host)
            over, running = ("done", "failed", "expired"), ("pending", "locked")
            active = [] if status in over else await session.fetch(_Q.active_jobs, **params)
            ended = [] if status in running else await self._ended_jobs(session, params)
        rows = list(heapq.merge(active, ended, key=lambda row: row["id"], reverse=True))[: limit + 1]
        return page_of(rows, limit, _structs(Job), lambda row: row["id"])

    async def _ended_jobs(self, session: Session, params: dict[str, Any]) -> list[Row]:
        bot_id, most, before = params["bot_id"], params["most"], params["before"]
        rare_bot = bot_id is not None and await is_rare_bot(session, bot_id, most=most, before=before)
        return await session.fetch(_Q.ended_jobs, rare_bot=rare_bot, **params)

    async def job(self, job_id: UUID) -> Job:
        row = await self._db.row(_Q.job, job_id=job_id)
        if row is None:
            raise NotFound("there is no job %(id)s", code="job_not_found", id=str(job_id))
        return Job(**row)

    async def timeline(self, job_id: UUID) -> list[TimelineRow]:
        await self.job(job_id)
        rows = await self._db.fetch(_Q.timeline, job_id=job_id)
        return [
            TimelineRow(from_=r["from"], to=r["to"], at=r["at"], by=r["by"], reason=r["reason"]) for r in rows
        ]

    async def late(self, job_id: UUID) -> list[LateRow]:
        await self.job(job_id)
        return [LateRow(**row) for row in await self._db.fetch(_Q.late_results, job_id=job_id)]

    async def job_why(self, job_id: UUID) -> Explanation:
        """Why a job is not running: for one that ended, why its policy is not."""
        return await self.policy_why((await self.job(job_id)).policy_id)

    # ── results ──────────────────────────────────────────────────────────────────────────────────

    async def results(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
        url: str | None = None,
        policy_id: UUID | None = None,
        like: Sequence[UUID] | None = None,
        currency: str | None = None,
        in_stock: bool | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Page[Any]:
        policy_ids = like if policy_id is None else [policy_id]
        if url is not None:
            found = {row["policy_id"] for row in await self._db.fetch(_Q.policy_ids_of_url, url=url)}
            policy_ids = [i for i in found if policy_id in (None, i)]
        rows = await self._db.fetch(
            _Q.results,
            before=read_uuid(cursor),
            policy_ids=policy_ids,
            currency=currency,
            in_stock=in_stock,
            since=since,
            until=until,
            most=limit + 1,
        )
        return page_of(rows, limit, _structs(Result), lambda row: row["id"])

    async def result(self, result_id: UUID, read_page: Callable[[str], Any]) -> FullResult:
        row = await self._db.row(_Q.result, result_id=result_id)
        if row is None:
            raise NotFound("there is no result %(id)s", id=str(result_id))
        fields = dict(row)
        key = fields.pop("blob_key")
        if key is not None:
            fields["raw_html"] = await read_page(key)
        return FullResult(**fields)

    # ── hosts, bots ──────────────────────────────────────────────────────────────────────────────

    async def hosts(self, *, limit: int = 50, cursor: str | None = None) -> Page[Any]:
        rows = await self._db.fetch(_Q.hosts, after=read_text(cursor), host=None, most=limit + 1)
        return page_of(rows, limit, self._host, lambda row: row["host"])

    async def host(self, name: str) -> FullHost:
        row = await self._db.row(_Q.hosts, after=None, host=name, most=1)
        if row is None:
            raise NotFound("there is no host %(host)s: no policy names it, and it has no limits", host=name)
        periods = await self._db.fetch(_Q.cooling_periods, host=name, span=_WEEK, most=100)
        return FullHost(
            **msgspec.structs.asdict(self._host(row)),
            cooling_periods=[CoolingPeriod(**period) for period in periods],
        )

    def _host(self, row: Row) -> Host:
        effective = Limits(row["max_concurrent"], row["min_delay_seconds"]).over(self._fleet)
        fields = dict(row) | {
            "next_at": row["next_at"] if row["next_at"] > _LONG_AGO else None,
            "cooling_until": row["cooling_until"] if row["cooling_until"] > datetime.now(UTC) else None,
        }
        return Host(
            effective_max_concurrent=effective.max_concurrent,
            effective_min_delay_seconds=effective.min_delay_seconds,
            **fields,
        )

    async def bots(self, *, limit: int = 50, cursor: str | None = None) -> Page[Any]:
        rows = await self._db.fetch(_Q.bots, after=read_text(cursor), bot_id=None, most=limit + 1)
        return page_of(rows, limit, _structs(BotInfo), lambda row: row["bot_id"])

    async def bot(self, bot_id: str) -> BotInfo:
        rows = await self._db.fetch(_Q.bots, after=None, bot_id=bot_id, most=1)
        if not rows:
            raise NotFound("there is no bot %(bot_id)s", bot_id=bot_id)
        return BotInfo(**rows[0])

    # ── figures ──────────────────────────────────────────────────────────────────────────────────

    async def stats(self) -> Stats:
        """Exact while counting is cheap; above that, jobs are counted up to a bound and `exact` is false."""
        overview, active, hour = await self.overview(), await self.active_jobs(), await self.last_hour()
        ended = await self._db.fetch(_Q.estimate_ended, most=_COUNT_EXACTLY)
        jobs = active | _NONE_ENDED | {row["status"]: row["jobs"] for row in ended}
        exact = sum(active.values()) < _COUNT_EXACTLY and sum(row["jobs"] for row in ended) < _COUNT_EXACTLY
        return Stats(
            jobs=jobs,
            policies={"total": overview["policies"], "enabled": overview["enabled"]},
            last_hour=hour.jobs,
            success_rate=hour.success_rate,
            retry_rate=hour.retry_rate,
            mean_duration_seconds=await self._db.value(_Q.last_hour_results),
            due=overview["due"],
            oldest_due_seconds=max(0.0, overview["oldest_due"]),
            oldest_pending_seconds=max(0.0, overview["oldest_pending"]),
            hosts_cooling=overview["hosts_cooling"],
            bots_alive=overview["bots_alive"],
            outbox=overview["outbox"],
            outbox_age_seconds=max(0.0, overview["outbox_age"]),
            webhooks_waiting=overview["webhooks"],
            dead_letters=overview["dead_letters"],
            exact=exact,
            at=overview["at"],
        )

    async def overview(self) -> Row:
        """The figures that need no counting of jobs."""
        row = await self._db.row(_Q.overview)
        assert row is not None
        return row

    async def active_jobs(self) -> dict[str, int]:
        """Waiting and running jobs, counted up to a bound."""
        row = await self._db.row(_Q.count_active, most=_COUNT_EXACTLY)
        assert row is not None
        return {"pending": row["pending"], "locked": row["locked"]}

    async def last_hour(self) -> LastHour:
        rows = await self._db.fetch(_Q.last_hour)
        jobs = _NONE_ENDED | {row["status"]: row["jobs"] for row in rows}
        total = sum(jobs.values())
        if not total:
            return LastHour(jobs, None, None)
        retries = sum(row["retries"] for row in rows)
        return LastHour(jobs, round(jobs["done"] / total, 4), round(retries / total, 4))

    async def pools(self) -> list[Row]:
        """The budgets of adaptive policies."""
        return await self._db.fetch(_Q.pools)

    async def queue_depths(self) -> dict[str, int]:
        return {row["queue"]: row["depth"] for row in await self._db.fetch(_Q.queue_depths)}


def _structs(kind: type[T]) -> Callable[[Row], T]:
    """Makes a struct of the columns that it names."""
    names = kind.__struct_fields__
    return lambda row: kind(**{name: row[name] for name in names})
