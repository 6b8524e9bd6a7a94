"""Keeps adaptive policies within their budgets: prices every quarter of an hour, priors every night."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from opilio.adapters.postgres import Database, Row, Session
from opilio.clock import Clock
from opilio.crawl.adaptive import habit, prior, siblings
from opilio.crawl.adaptive.habit import Pages
from opilio.crawl.adaptive.price import ELASTICITY, Demand, Market, first_price, refit
from opilio.crawl.adaptive.prior import Summary, from_base
from opilio.crawl.adaptive.reschedule import HOT, SHORTEST_HOURS, habit_of, pack_hours, unpack_hours
from opilio.crawl.adaptive.rule import weight_of
from opilio.crawl.adaptive.value import interval
from opilio.crawl.politeness import Limits
from opilio.crawl.sql import QUERIES

REFIT_SECONDS = 900.0
_OBSERVED_PAGES = 50  # a prior is fitted to no fewer
_BATCH = 2000  # pages at a time: about 20 ms of work
_DAY = 86400.0


class Budgets(msgspec.Struct, frozen=True):
    """Crawls per day that the user set: for all pools, and for some by their name."""

    fleet: float | None = None
    pools: Mapping[str, float] = {}

    def of(self, pool: str, base: float, unnamed_base: float) -> float:
        """A pool's own budget; else its share of the fleet's; else what its base frequencies cost."""
        if pool in self.pools:
            return self.pools[pool]
        if self.fleet is None or unnamed_base <= 0:
            return base
        return self.fleet * base / unnamed_base


def longest_interval(pages: int, budget: float) -> float:
    """Days: a month, or six mean intervals, so that the bound uses less than a sixth of the budget."""
    return max(30.0, 6.0 * pages / budget) if budget > 0 else 30.0


class BudgetKeeper:
    def __init__(
        self, database: Database, budgets: Budgets, *, fleet: Limits | None = None, clock: Clock | None = None
    ) -> None:
        self._db = database
        self._budgets = budgets
        self._fleet = fleet or Limits()
        self._clock = clock or Clock()

    async def refit(self, *, every: float = REFIT_SECONDS) -> int:
        """Moves the price of each pool whose turn has come; safe to run concurrently."""
        return await self._db.transact(lambda session: self._refit(session, every))

    async def _refit(self, session: Session, every: float) -> int:
        pools = await session.fetch(QUERIES.take_pools, every=every, now=self._clock.now())
        if not pools:
            return 0
        await session.execute(QUERIES.drop_pools)
        hosts = {
            row["pool"]: await session.fetch(QUERIES.pool_demand, pool=row["pool"], elasticity=ELASTICITY)
            for row in pools
        }
        base = {pool: sum(host["base"] for host in rows) for pool, rows in hosts.items()}
        unnamed = sum(rate for pool, rate in base.items() if pool not in self._budgets.pools)
        for pool in pools:
            budget = self._budgets.of(pool["pool"], base[pool["pool"]], unnamed)
            if hosts[pool["pool"]]:
                await self._refit_pool(session, pool, hosts[pool["pool"]], budget)
        return len(pools)

    async def _refit_pool(self, session: Session, pool: Row, hosts: Sequence[Row], budget: float) -> None:
        pages = sum(host["pages"] for host in hosts)
        longest = longest_interval(pages, budget)
        if pool["price"] is None:
            before = Market(await self._first_price(session, pool, budget, longest))
            market = before
        else:
            prices = {host["host"]: host["crawl_price"] for host in hosts if host["crawl_price"]}
            before = Market(pool["price"], pool["delta"], prices)
            market = refit(
                before,
                _demand(pool, hosts, pages),
                budget,
                limits=self._host_limits(hosts),
                hours=min((pool["at"] - pool["refitted_at"]).total_seconds() / 3600, 2.0),
            )
        demand = sum(host["plan"] / market.of(host["host"]) ** ELASTICITY for host in hosts)
        await session.execute(
            QUERIES.set_pool,
            pool=pool["pool"],
            budget=budget,
            price=market.price,
            delta=market.delta,
            longest=longest,
            pages=pages,
            demand=demand,
            now=self._clock.now(),
        )
        moved = [host for host in hosts if before.hosts.get(host["host"]) != market.hosts.get(host["host"])]
        if moved:
            await session.execute(
                QUERIES.set_host_prices,
                host_ids=[host["host_id"] for host in moved],
                prices=[market.hosts.get(host["host"]) for host in moved],
            )

    def _host_limits(self, hosts: Sequence[Row]) -> dict[str, float]:
        """Crawls a day that a minimum delay leaves room for."""
        delays = {host["host"]: host["min_delay_seconds"] or self._fleet.min_delay_seconds for host in hosts}
        return {host: _DAY / delay for host, delay in delays.items() if delay}

    async def _first_price(self, session: Session, pool: Row, budget: float, longest: float) -> float:
        groups = await session.fetch(QUERIES.pool_weights, pool=pool["pool"])

        def demand_at(price: float) -> float:
            return sum(
                float(group["pages"])
                / interval(
                    from_base(group["frequency_hours"] / 24),
                    price / weight_of(min(100, group["priority"] + HOT * group["hot"])),
                    (group["min_interval_hours"] or SHORTEST_HOURS) / 24,
                    max(
                        (group["max_interval_hours"] or longest * 24) / 24,
                        (group["min_interval_hours"] or SHORTEST_HOURS) / 24,
                    ),
                )
                for group in groups
            )

        return first_price(budget, demand_at)

    async def refit_priors(self) -> int:
        """Once a day: what is assumed about unobserved pages comes from the observed ones."""
        hosts = await self._db.transact(self._refit_priors)
        if hosts:
            await self._refit_habits()
        return hosts

    async def _refit_priors(self, session: Session) -> int:
        now: datetime | None = self._clock.now()
        if not await session.fetch(QUERIES.pools_for_priors, now=now):
            return 0
        rows = await session.fetch(QUERIES.observed_rates, shape=from_base(1.0).shape)
        pages = sum(row["pages"] for row in rows)
        if pages < _OBSERVED_PAGES:
            return 0
        everyone = Summary(
            pages,
            sum(row["pages"] * row["mean"] for row in rows) / pages,
            sum(row["pages"] * row["mean_log"] for row in rows) / pages,
        )
        shared = prior.fit(everyone)
        own = [
            prior.fit(prior.blend(Summary(row["pages"], row["mean"], row["mean_log"]), everyone))
            for row in rows
        ]
        await session.execute(
            QUERIES.set_priors,
            host_ids=[row["host_id"] for row in rows],
            shapes=[rate.shape for rate in own],
            days=[rate.days for rate in own],
            shape=shared.shape,
            day=shared.days,
            now=now,
        )
        await self._learn_siblings(session)
        return len(rows)

    async def _refit_habits(self) -> None:
        """How many pages change daily, and when. They are read piece by piece, with no lock held."""
        seen: dict[int, Pages] = {}
        after = None
        while rows := await self._db.fetch(QUERIES.observed_hours, after=after, most=_BATCH):
            for row in rows:
                pages = seen.setdefault(row["host_id"], Pages())
                pages.add(unpack_hours(row["daily_hours"]), habit_of(row["prior_hours"]))
            after = rows[-1]["policy_id"]
        if not seen:
            return
        everyone, hosts = habit.fit(seen)
        await self._db.transact(
            lambda session: session.execute(
                QUERIES.set_habits,
                host_ids=list(hosts),
                host_hours=[pack_hours(own.hours) for own in hosts.values()],
                hours=pack_hours(everyone.hours),
            )
        )

    async def _learn_siblings(self, session: Session) -> None:
        """How the changes of pages in one folder come together, host by host."""
        rows = await session.fetch(
            QUERIES.recent_surprises,
            recent=int(siblings.RECENT),
            most=siblings.MOST_PAGES,
            now=self._clock.now(),
        )
        found = [
            siblings.learn(
                siblings.Together(*row["sums"]) if row["sums"] else siblings.Together(),
                siblings.Together(*(row[name] for name in siblings.Together._fields)),
            )
            for row in rows
        ]
        await session.execute(
            QUERIES.set_siblings,
            host_ids=[row["host_id"] for row in rows],
            correlations=[one.correlation or None for one in found],
            products=[one.products for one in found],
            pairs=[one.pairs for one in found],
            squares=[one.squares for one in found],
            visits=[one.visits for one in found],
            totals=[one.total for one in found],
        )


def _demand(pool: Row, hosts: Sequence[Row], pages: int) -> Demand:
    elapsed = (pool["at"] - pool["refitted_at"]).total_seconds() / _DAY
    paid = pool["budget_per_day"] * elapsed
    used = pool["created"] - pool["created_before"]
    overdue = (pool["at"] - pool["first_due"]).total_seconds() / _DAY if pool["first_due"] else 0.0
    return Demand(
        plans={host["host"]: host["plan"] for host in hosts},
        pages=pages,
        never_visited=sum(host["never_visited"] for host in hosts),
        idle_share=max(0.0, 1.0 - used / paid) if paid > 0 else 0.0,
        backlog_days=max(0.0, overdue),
    )
