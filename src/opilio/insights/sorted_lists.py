"""Lists of jobs and results in an order that people choose, and how many rows a filter has."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from opilio.adapters.postgres import Database, load_queries
from opilio.contracts.management import Job, Result
from opilio.insights.dashboard import Choice, Figures, JobFilter, PolicyFilter, fields_of
from opilio.insights.search import MOST_LIKE, is_rare_bot

_Q = load_queries("opilio.insights")
# No index could serve every order of every filter; so many of the newest rows are sorted, and the page says so.
SORTED_AT_MOST = 10_000
_MANY_OF_A_BOT = 2_000
COUNTED_AT_MOST = MOST_LIKE  # a search that found more need not count


class SortedLists:
    def __init__(self, database: Database, figures: Figures) -> None:
        self._db = database
        self._figures = figures

    async def jobs(
        self, chosen: JobFilter, *, sort: str, reverse: bool, page: int, size: int
    ) -> Sequence[Job]:
        """A page of jobs and one more, if there is one."""
        fields = fields_of(await self._figures.search_jobs(chosen))
        async with self._db.transaction() as session:
            await session.execute(_Q.plan_for_these_values)
            bot_id = chosen.bot_id
            rare_bot = bot_id is not None and await is_rare_bot(session, bot_id, most=_MANY_OF_A_BOT)
            order = _order(sort, reverse, page, size)
            rows = await session.fetch(_Q.sorted_jobs, rare_bot=rare_bot, **order, **fields)
        return [Job(**row) for row in rows]

    async def results(
        self, fields: dict[str, Any], *, sort: str, reverse: bool, page: int, size: int
    ) -> Sequence[Result]:
        """A page of results and one more, if there is one."""
        async with self._db.transaction() as session:
            await session.execute(_Q.plan_for_these_values)
            rows = await session.fetch(_Q.sorted_results, **_order(sort, reverse, page, size), **fields)
        return [Result(**row) for row in rows]

    # ── totals: exact below the bound ────────────────────────────────────────────────────────────

    async def count_policies(self, chosen: PolicyFilter) -> int:
        """Of a filter whose text was searched for: a text that is still there has more policies than are counted."""
        if chosen.q is not None and chosen == PolicyFilter(q=chosen.q):
            return COUNTED_AT_MOST
        return len(await self._figures.policy_ids(chosen, Choice(), COUNTED_AT_MOST, in_order=False))

    async def count_jobs(self, chosen: JobFilter) -> int:
        return len(await self._figures.job_ids(chosen, Choice(), COUNTED_AT_MOST, in_order=False))

    async def count_results(self, fields: dict[str, Any]) -> int:
        async with self._db.transaction() as session:
            await session.execute(_Q.plan_for_these_values)
            count: int = await session.value(_Q.count_results, bound=COUNTED_AT_MOST, **fields)
        return count

    async def count_hosts(self, q: str | None, cooling: bool | None) -> int:
        count: int = await self._db.value(_Q.count_hosts, bound=COUNTED_AT_MOST, q=q, cooling=cooling)
        return count


def _order(sort: str, reverse: bool, page: int, size: int) -> dict[str, Any]:
    return {
        "sort": sort,
        "reverse": reverse,
        "oldest": sort == "newest" and reverse,
        "bound": SORTED_AT_MOST,
        "most": size + 1,
        "skip": (page - 1) * size,
    }


def result_fields(
    *,
    policy_id: UUID | None,
    like: Sequence[UUID] | None,
    currency: str | None,
    in_stock: bool | None,
    **span: Any,
) -> dict[str, Any]:
    """The filter of a list of results as the statements name it."""
    policy_ids = like if policy_id is None else [policy_id]
    return {"policy_ids": policy_ids, "currency": currency, "in_stock": in_stock, **span}
