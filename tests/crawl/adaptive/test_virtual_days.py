"""A fleet over virtual days: the budget is held, no policy starves, everything is counted once."""

import pytest

from tests.crawl.adaptive.virtual_days import Pages, live
from tests.crawl.farm import Farm, FarmMaker

POLICIES, DAYS, SETTLED = 400, 4, 2


async def test_it_works(farm: Farm, farm_with: FarmMaker) -> None:
    pages = Pages.random(POLICIES, DAYS)
    run = await live(farm.opilio, farm_with().opilio, farm.clock, pages, DAYS)
    for day, made in enumerate(run.per_day[SETTLED:], start=SETTLED):
        assert made == pytest.approx(POLICIES, rel=0.05), (day, run.per_day)
    assert max(run.per_day) <= POLICIES * 1.02
    assert run.visited == POLICIES
    assert max(run.longest_gap.values()) <= 30 * 1.05
    assert run.lost > 0
    assert run.failed > 0
    assert run.accepted == await farm.value("select count(*) from job_archive where status = 'done'")
    assert run.accepted == await farm.value("select count(*) from stored_result")
    learnt = await farm.rows("select visits, changes_seen from policy_state")
    assert sum(row["visits"] for row in learnt) == run.accepted - POLICIES  # a first visit is no observation
