"""Questions about the adaptive schedule: one policy, the budgets, and what a switch would change."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from uuid import UUID

import msgspec

from opilio.adapters.postgres import Database, Row, load_queries
from opilio.crawl.adaptive.budget import Budgets, longest_interval
from opilio.crawl.adaptive.change_rate import NOTHING, Rate, observe, posterior, quantile
from opilio.crawl.adaptive.forecast import Forecast, KnownPage, PageForecast, describe, forecast
from opilio.crawl.adaptive.phase import SURE, likely
from opilio.crawl.adaptive.prior import from_base
from opilio.crawl.adaptive.reschedule import habit_of, learnt_of, prior_of, terms_of, unpack_hours
from opilio.crawl.adaptive.rule import kept_after
from opilio.crawl.adaptive.value import freshness
from opilio.errors import NotFound

_Q = load_queries("opilio.insights")
_MOST_PAGES = 20_000
_SHOWN = 10


class LearntSchedule(msgspec.Struct, kw_only=True):
    """What an adaptive policy has learnt, and what follows from it."""

    changes_per_day: float
    changes_per_day_low: float
    """The rate lies between low and high with a probability of 90 %."""
    changes_per_day_high: float
    interval_days: float | None
    next_run_at: datetime
    expected_freshness: float | None
    visits: int
    changes_seen: int
    caught_on_fixed: float | None
    """Changes that the same time on the base frequency would be expected to catch, at most one a visit."""
    daily_window: list[float] | None
    """Hours of the day (UTC) in which the page changes, if it has a daily rhythm."""
    brought_forward_at: datetime | None
    """When the next visit was brought forward because other pages of its folder changed."""
    why: str


class Pool(msgspec.Struct, kw_only=True):
    """A budget and how it is used."""

    pool: str
    pages: int
    budget_per_day: float | None
    price: float | None
    demand_per_day: float
    jobs_created: int
    waiting_days: float
    """How long the first due page has waited for the budget."""
    forecast: Forecast | None
    not_worth_it: int
    """Pages at their longest interval although they change more often: they cost more than they give."""
    costly: list[PageForecast] = []
    """The first of them."""


class RecrawlInsights:
    def __init__(self, database: Database, budgets: Budgets) -> None:
        self._db = database
        self._budgets = budgets

    async def policy(self, policy_id: UUID) -> LearntSchedule | None:
        """None for a fixed schedule."""
        row = await self._db.row(_Q.learnt_schedule, policy_id=policy_id)
        if row is None:
            raise NotFound("there is no policy %(policy_id)s", policy_id=str(policy_id))
        return _schedule(row) if row["pool"] is not None else None

    async def pools(self) -> list[Pool]:
        found = []
        for row in await self._db.fetch(_Q.pools):
            rows = await self._db.fetch(_Q.adaptive_pages, pool=row["pool"], most=_MOST_PAGES)
            # Thousands of pages take a second to add up: other requests go on meanwhile.
            found.append(await asyncio.to_thread(_pool, row, rows))
        return found

    async def plan(self, *, host: str | None = None, budget: float | None = None) -> Forecast | None:
        """What switching the fixed policies to adaptive would change; None if nothing was observed yet."""
        rows = await self._db.fetch(_Q.fixed_histories, host=host, most=_MOST_PAGES)
        if not rows:
            return None
        crawls = budget or self._budgets.fleet or sum(24 / row["frequency_hours"] for row in rows)
        longest = longest_interval(len(rows), crawls)
        return forecast([_from_history(row, longest) for row in rows], crawls)


def _pool(row: Row, rows: Sequence[Row]) -> Pool:
    pages = [_known(page) for page in rows]
    costly = [page for page in pages if _costs_more_than_it_gives(page)]
    return Pool(
        pool=row["pool"],
        pages=row["pages"],
        budget_per_day=row["budget_per_day"],
        price=row["price"],
        demand_per_day=row["demand"],
        jobs_created=row["created"],
        waiting_days=row["waiting_days"],
        forecast=forecast(pages) if pages else None,
        not_worth_it=len(costly),
        costly=[
            PageForecast(page.url, page.base, page.longest, describe(page.rate, page.longest, page.longest))
            for page in costly[:_SHOWN]
        ],
    )


def _schedule(row: Row) -> LearntSchedule:
    rate = posterior(learnt_of(row).evidence, prior_of(row))
    window = likely(unpack_hours(row["daily_hours"]), habit_of(row["prior_hours"]))
    days = row["interval_days"]
    base = row["frequency_hours"] / 24
    watched = row["rate_days"] or 0.0
    return LearntSchedule(
        changes_per_day=rate.mean,
        changes_per_day_low=quantile(rate, 0.05),
        changes_per_day_high=quantile(rate, 0.95),
        interval_days=days,
        next_run_at=row["next_run_at"],
        expected_freshness=freshness(rate, days) if days else None,
        visits=row["visits"],
        changes_seen=row["changes_seen"],
        caught_on_fixed=watched * rate.mean * freshness(rate, base) if watched > 0 else None,
        daily_window=[window.start * 24, window.end * 24] if window and window.chance >= SURE else None,
        brought_forward_at=row["brought_forward_at"],
        why=_why(row, rate),
    )


def _why(row: Row, rate: Rate) -> str:
    days = row["interval_days"]
    if not days:
        return "not visited yet; its base frequency is assumed"
    usual = describe(rate, days, terms_of(row).longest)
    if row["brought_forward_at"]:
        return f"{usual}; this visit was brought forward because other pages of its folder changed"
    return usual


def _known(row: Row) -> KnownPage:
    terms = terms_of(row)
    rate = posterior(learnt_of(row).evidence, prior_of(row))
    base = row["frequency_hours"] / 24
    return KnownPage(
        row["url"], terms.weight, rate, base, terms.shortest, terms.longest, row["interval_days"]
    )


def _costs_more_than_it_gives(page: KnownPage) -> bool:
    return (
        page.planned is not None
        and page.planned >= page.longest * 0.999
        and page.rate.mean * page.longest > 1
    )


def _from_history(row: Row, longest: float) -> KnownPage:
    """Learns from stored results what an adaptive policy would have learnt from them."""
    base = row["frequency_hours"] / 24
    prior = from_base(base)
    evidence = _replayed(row["visited"], set(row["changed"]), prior)
    terms = terms_of(row)
    bound = terms.longest if row["max_interval_hours"] else max(longest, terms.shortest)
    return KnownPage(row["url"], terms.weight, posterior(evidence, prior), base, terms.shortest, bound)


def _replayed(visited: Sequence[datetime], changed: set[datetime], prior: Rate) -> Rate:
    evidence = NOTHING
    for last, now in pairwise(visited):
        gap = (now - last).total_seconds() / 86400
        if gap > 0:
            evidence = observe(evidence, prior, gap, change=now in changed, kept=kept_after(gap))
    return evidence
