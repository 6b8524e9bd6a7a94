"""Priors: from the base frequency, then from the pages themselves."""

from random import Random

import pytest

from opilio.crawl.adaptive.change_rate import NOTHING, Rate, expected_log, observe, posterior
from opilio.crawl.adaptive.prior import Summary, blend, fit, from_base


def test_the_scale_is_the_base_interval() -> None:
    assert from_base(30.0).days == 30.0
    assert from_base(30.0).shape < 1
    assert from_base(1e9).days == 3650.0


def test_pages_teach_their_prior() -> None:
    """Rates drawn from Gamma(0.5, 5 d) are found again from single bits, starting from a prior a hundred times off."""
    random, prior = Random(3), from_base(0.05)
    true = [random.gammavariate(0.5, 1 / 5.0) for _ in range(600)]
    bits = [[random.random() < 1 - 2.718281828 ** (-rate * 2.0) for _ in range(40)] for rate in true]
    for _ in range(12):
        evidence = []
        for seen in bits:
            known = NOTHING
            for change in seen:
                known = observe(known, prior, 2.0, change=change, kept=1.0)
            evidence.append(known)
        rates = [posterior(known, prior) for known in evidence]
        count = len(rates)
        prior = fit(
            Summary(count, sum(r.mean for r in rates) / count, sum(expected_log(r) for r in rates) / count)
        )
    assert prior.shape == pytest.approx(0.5, rel=0.25)
    assert prior.mean == pytest.approx(0.1, rel=0.25)


def test_the_shape_stays_below_one() -> None:
    certain = Rate(400.0, 100.0)
    assert fit(Summary(500, certain.mean, expected_log(certain))).shape <= 0.8


def test_a_small_group_leans_on_everyone() -> None:
    everyone = Summary(10_000, 1.0, -2.0)
    one, many = Summary(1, 9.0, 1.0), Summary(100_000, 9.0, 1.0)
    assert blend(one, everyone).mean < 1.5
    assert blend(many, everyone).mean > 8.9
