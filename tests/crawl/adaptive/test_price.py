"""The price keeps demand at the budget."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.crawl.adaptive.price import ELASTICITY, Demand, Market, first_price, histogram, refit


def demand(rate: float, market: Market, **more) -> Demand:
    """Stored plans that ask for `rate` crawls a day at today's price."""
    return Demand({"a": rate * market.price**ELASTICITY}, pages=100, never_visited=0, **more)


@given(st.floats(1e-6, 1e6), st.floats(1, 1e6), st.floats(1, 1e6))
def test_the_price_moves_towards_the_budget(price: float, wanted: float, budget: float) -> None:
    market = Market(price)
    after = refit(market, demand(wanted, market), budget)
    assert (after.price >= price) == (wanted >= budget) or after.price == pytest.approx(price)
    assert 0.6 * price <= after.price <= 1.6 * price * (1 + 1e-12)


def test_it_settles_where_demand_meets_the_budget() -> None:
    """Plans that follow the price at once: after a day of steps the demand is the budget."""
    market = Market(1.0)
    for _ in range(48):
        asked = 500.0 * market.price**-ELASTICITY
        market = refit(market, demand(asked, market), 100.0)
    assert 500.0 * market.price**-ELASTICITY == pytest.approx(100.0, rel=0.02)


def test_many_new_pages_hold_the_price_still() -> None:
    market = Market(1.0, 0.1)
    new = Demand({"a": 1.0}, pages=100, never_visited=6)
    assert refit(market, new, 50.0) is market
    assert refit(market, Demand({}, pages=0, never_visited=0), 50.0) is market


def test_unused_budget_lowers_the_price_and_a_backlog_raises_it() -> None:
    market = Market(1.0)
    assert refit(market, demand(50.0, market, idle_share=0.5), 50.0).price < 1.0
    assert refit(market, demand(50.0, market, backlog_days=2.0), 50.0).price > 1.0


def test_the_correction_stays_within_bounds() -> None:
    market = Market(1.0)
    for _ in range(500):
        market = refit(market, demand(50.0, market, idle_share=1.0), 50.0)
    assert market.delta == 0.20
    for _ in range(500):
        market = refit(market, demand(50.0, market, backlog_days=3.0), 50.0)
    assert market.delta == -0.10


def test_a_host_over_its_limit_gets_a_price_of_its_own_and_loses_it_again() -> None:
    plans = {"small": 10.0, "large": 90.0}
    market = Market(1.0)
    for _ in range(100):
        market = refit(market, Demand(plans, 100, 0), 100.0, limits={"large": 30.0})
    assert market.of("large") > market.of("small") == market.price
    assert 90.0 / market.of("large") ** ELASTICITY == pytest.approx(0.97 * 30.0, rel=0.02)
    for _ in range(200):
        market = refit(market, Demand(plans, 100, 0), 100.0, limits={"large": 500.0})
    assert market.of("large") == market.price


def test_the_first_price_meets_the_budget() -> None:
    assert first_price(10.0, lambda price: 40.0 / price) == pytest.approx(4.0, rel=1e-6)


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=200))
def test_a_histogram_counts_everyone(weights: list[float]) -> None:
    found = histogram(weights)
    assert sum(count for _, count in found) == len(weights)
    assert sum(weight * count for weight, count in found) == pytest.approx(sum(weights), rel=0.16)
