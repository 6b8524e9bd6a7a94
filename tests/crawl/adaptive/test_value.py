"""What a crawl is worth: closed forms against quadrature, the interval against bisection."""

from math import exp, inf, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.crawl.adaptive.change_rate import Rate
from opilio.crawl.adaptive.value import freshness, interval, known_interval, value
from tests.crawl.adaptive.test_change_rate import integral, rates

_SHORT, _LONG = 0.25 / 24, 300.0


def exact_value(rate: float, gap: float) -> float:
    return 1 / rate - (gap + 1 / rate) * exp(-rate * gap)


@pytest.mark.parametrize("rate", [Rate(0.3, 1.0), Rate(1.0, 4.0), Rate(1.0000001, 4.0), Rate(12.0, 3.0)])
@pytest.mark.parametrize("gap", [0.05, 1.0, 40.0])
def test_the_closed_form_is_the_average_over_the_rate(rate: Rate, gap: float) -> None:
    average = integral(
        rate, lambda rate_: exact_value(rate_, gap) if rate_ * gap > 1e-6 else rate_ * gap**2 / 2
    )
    assert value(rate, gap) == pytest.approx(average, rel=1e-5)


@given(rates, st.floats(0.01, 300), st.floats(1.01, 10))
def test_the_value_of_a_crawl_rises_with_the_gap(rate: Rate, gap: float, more: float) -> None:
    assert value(rate, gap * more) >= value(rate, gap) >= 0


@given(rates, st.floats(1e-6, 1e4))
def test_the_interval_is_where_value_meets_price(rate: Rate, price: float) -> None:
    days = interval(rate, price, _SHORT, _LONG)
    assert _SHORT <= days <= _LONG
    if _SHORT * 1.001 < days < _LONG * 0.999:
        assert value(rate, days) == pytest.approx(price, rel=1e-3)


def interval_by_bisection(rate: Rate, price: float, shortest: float, longest: float) -> float:
    """The definition, slowly: halving the logarithm of the interval."""
    if value(rate, longest) <= price:
        return longest
    low, high = log(shortest), log(longest)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if value(rate, exp(middle)) < price else (low, middle)
    return exp(high)


@given(rates, st.floats(1e-6, 1e4), st.floats(1, 30))
def test_the_interval_is_that_of_bisection(rate: Rate, price: float, ratio: float) -> None:
    longest = _LONG / ratio
    days = interval(rate, price, _SHORT, longest)
    if value(rate, days) == pytest.approx(
        value(rate, interval_by_bisection(rate, price, _SHORT, longest)), rel=1e-9
    ):
        return  # where the value is flat, many intervals are as good
    assert days == pytest.approx(interval_by_bisection(rate, price, _SHORT, longest), rel=1e-4)


@given(rates, st.floats(1e-6, 1e4), st.floats(1, 100))
def test_a_higher_price_never_means_more_crawls(rate: Rate, price: float, more: float) -> None:
    cheap = interval(rate, price, _SHORT, _LONG)
    assert interval(rate, price * more, _SHORT, _LONG) >= cheap * (1 - 1e-5)


def test_an_unknown_page_is_crawled_some_day_whatever_the_price() -> None:
    """Below a shape of 1 the value has no upper limit; above it a hopeless page waits for its longest interval."""
    assert interval(Rate(0.3, 1.0), 50.0, _SHORT, 1e9) < 1e9
    assert interval(Rate(50.0, 0.1), 50.0, _SHORT, 1e9) == 1e9


@given(st.floats(1e-3, 100), st.floats(1e-4, 0.999))
def test_the_interval_of_a_known_rate(rate: float, share: float) -> None:
    days = known_interval(rate, share / rate)
    x = rate * days
    assert 1 - (1 + x) * exp(-x) == pytest.approx(share, rel=1e-6)


def test_a_page_that_changes_faster_than_it_is_worth_is_never_crawled() -> None:
    assert known_interval(2.0, 0.6) == inf
    assert known_interval(0.0, 0.6) == inf


@given(rates, st.floats(0.01, 300))
def test_freshness_is_a_share(rate: Rate, gap: float) -> None:
    assert 0 < freshness(rate, gap) <= 1
    assert freshness(rate, gap) >= freshness(rate, gap * 2) * (1 - 1e-9)
