"""The Gamma posterior against quadrature, and properties that every update must have."""

from math import exp, inf, isfinite, lgamma, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.crawl.adaptive.change_rate import (
    NOTHING,
    Rate,
    changed,
    changed_at,
    digamma,
    expected_log,
    observe,
    posterior,
    quantile,
    unchanged,
)
from opilio.crawl.adaptive.rule import kept_after

shapes = st.floats(0.1, 200)
days = st.floats(0.01, 2000)
gaps = st.floats(1 / 86400, 1000)
rates = st.builds(Rate, shapes, days)


def integral(rate: Rate, weigh) -> float:
    """∫ weigh(λ) Gamma(λ) dλ on a grid of log λ."""
    low, high, steps = -60.0, log(rate.shape + 40 * rate.shape**0.5 + 60) + 0.0, 20_000
    width = (high - low) / steps
    total = 0.0
    for i in range(steps):
        x = low + (i + 0.5) * width  # log of λ·days
        density = exp(rate.shape * x - exp(x) - lgamma(rate.shape))
        total += density * weigh(exp(x) / rate.days) * width
    return total


@pytest.mark.parametrize("rate", [Rate(0.3, 1.0), Rate(0.8, 30.0), Rate(5.0, 2.0), Rate(40.0, 10.0)])
@pytest.mark.parametrize("gap", [0.01, 0.7, 20.0, 300.0])
def test_a_change_gives_the_mean_and_variance_of_the_exact_posterior(rate: Rate, gap: float) -> None:
    seen = integral(rate, lambda rate_: 1 - exp(-rate_ * gap))
    mean = integral(rate, lambda rate_: rate_ * (1 - exp(-rate_ * gap))) / seen
    square = integral(rate, lambda rate_: rate_**2 * (1 - exp(-rate_ * gap))) / seen
    after = changed(rate, gap)
    assert after.mean == pytest.approx(mean, rel=1e-6)
    assert after.shape / after.days**2 == pytest.approx(square - mean**2, rel=1e-5)


@given(rates, gaps)
def test_a_change_raises_the_rate_and_silence_lowers_it(rate: Rate, gap: float) -> None:
    assert unchanged(rate, gap).mean < rate.mean
    assert changed(rate, gap).mean >= rate.mean * (1 - 1e-9)


@given(rates, gaps)
def test_a_change_within_a_shorter_gap_says_more(rate: Rate, gap: float) -> None:
    assert changed(rate, gap).mean >= changed(rate, gap * 2).mean * (1 - 1e-9)


@given(rates, st.lists(st.tuples(gaps, st.booleans()), max_size=60))
def test_any_history_leaves_a_proper_distribution(prior: Rate, history: list[tuple[float, bool]]) -> None:
    evidence = NOTHING
    for gap, change in history:
        evidence = observe(evidence, prior, gap, change=change, kept=kept_after(gap))
        known = posterior(evidence, prior)
        assert 0 < known.shape < inf
        assert 0 < known.days < inf
        assert isfinite(known.mean)


def test_a_known_moment_says_more_than_a_gap() -> None:
    prior = Rate(0.3, 1.0)
    assert changed_at(prior, 0.5) == Rate(1.3, 1.5)
    exact = posterior(observe(NOTHING, prior, 30.0, change=True, age=0.1, kept=1.0), prior)
    censored = posterior(observe(NOTHING, prior, 30.0, change=True, kept=1.0), prior)
    assert exact.mean > censored.mean


def test_old_evidence_fades() -> None:
    prior = Rate(0.3, 1.0)
    evidence = Rate(20.0, 100.0)
    faded = observe(evidence, prior, 90.0, change=False, kept=kept_after(90.0))
    assert faded.shape == pytest.approx(10.0)
    assert faded.days == pytest.approx(50.0 + 90.0)


def test_the_rate_of_a_page_is_found_from_single_bits() -> None:
    """Poisson, twice a day, visited every 0.4 days: the true rate lies in the 90 % interval and near the mean."""
    from random import Random

    random, prior, evidence = Random(5), Rate(0.3, 1.0), NOTHING
    for _ in range(400):
        evidence = observe(
            evidence, prior, 0.4, change=random.random() < 1 - exp(-2 * 0.4), kept=kept_after(0.4)
        )
    known = posterior(evidence, prior)
    assert known.mean == pytest.approx(2.0, rel=0.2)
    assert quantile(known, 0.05) < 2.0 < quantile(known, 0.95)


@given(rates, st.floats(0.01, 0.98))
def test_quantiles_rise(rate: Rate, share: float) -> None:
    assert quantile(rate, share) <= quantile(rate, share + 0.01)


def test_quantiles_of_an_exponential() -> None:
    assert quantile(Rate(1.0, 2.0), 0.95) == pytest.approx(-log(0.05) / 2, rel=1e-9)
    assert quantile(Rate(1.0, 2.0), 0.05) == pytest.approx(-log(0.95) / 2, rel=1e-9)


def test_the_mean_logarithm() -> None:
    assert digamma(1.0) == pytest.approx(-0.5772156649015329, abs=1e-8)
    assert digamma(0.3) == pytest.approx(-3.5025242222001332, abs=1e-8)
    assert expected_log(Rate(3.0, 2.0)) == pytest.approx(integral(Rate(3.0, 2.0), log), abs=1e-6)
