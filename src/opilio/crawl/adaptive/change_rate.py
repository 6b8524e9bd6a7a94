"""What is known about how often a page changes: a Gamma distribution over its rate, in changes per day.

A visit sees one bit (changed or not since the last one), never when or how often; the updates are the exact ones
for such censored observations.
"""

from math import exp, expm1, fsum, lgamma, log, log1p

import msgspec

SHORTEST_GAP = 1 / 86400
"""Days. Two results within a second teach nothing more than two a second apart."""
LARGEST_SHAPE = 1e6
_LEAST_SHAPE = 0.05


class Rate(msgspec.Struct, frozen=True, gc=False):
    """Gamma(shape, scale): about `shape` changes seen in `days` days."""

    shape: float
    days: float

    @property
    def mean(self) -> float:
        """Expected changes per day."""
        return self.shape / self.days


NOTHING = Rate(0.0, 0.0)
"""The evidence of a page that has not been observed; evidence is what is known on top of a prior."""


def unchanged(rate: Rate, gap: float) -> Rate:
    """No change within `gap` days."""
    return Rate(rate.shape, rate.days + gap)


def changed(rate: Rate, gap: float) -> Rate:
    """At least one change within `gap` days: the Gamma with the mean and variance of the exact posterior."""
    shape, days = rate.shape, rate.days
    fade = -log1p(gap / days)  # log of days / (days + gap)
    seen = -expm1(shape * fade)
    first = shape / days * -expm1((shape + 1) * fade) / seen
    second = shape * (shape + 1) / (days * days) * -expm1((shape + 2) * fade) / seen
    variance = second - first * first
    if variance <= 0.0:  # a shape beyond what doubles can tell apart
        return rate
    return Rate(min(first * first / variance, LARGEST_SHAPE), first / variance)


def changed_at(rate: Rate, age: float) -> Rate:
    """The page says itself that it changed last `age` days ago."""
    return Rate(min(rate.shape + 1.0, LARGEST_SHAPE), rate.days + age)


def observe(
    evidence: Rate,
    prior: Rate,
    gap: float,
    *,
    change: bool,
    age: float | None = None,
    kept: float,
) -> Rate:
    """The evidence after a visit `gap` days after the one before; of the older evidence a share is `kept`."""
    gap = max(gap, SHORTEST_GAP)
    older = Rate(evidence.shape * kept, evidence.days * kept)
    if not change:
        return unchanged(older, gap)  # whatever the prior is
    rate = Rate(older.shape + prior.shape, older.days + prior.days)
    rate = changed(rate, gap) if age is None else changed_at(rate, min(max(age, 0.0), gap))
    return Rate(rate.shape - prior.shape, rate.days - prior.days)


def posterior(evidence: Rate, prior: Rate) -> Rate:
    """Prior and evidence together. Evidence may be negative against a prior that was refitted since."""
    shape, days = evidence.shape + prior.shape, evidence.days + prior.days
    return Rate(max(_LEAST_SHAPE, shape), max(SHORTEST_GAP, days))


def chance_of_no_change(rate: Rate, gap: float) -> float:
    """The probability that the page stays the same for `gap` days."""
    return exp(-rate.shape * log1p(gap / rate.days))


def quantile(rate: Rate, share: float) -> float:
    """The rate that the page's own rate is below with probability `share`."""
    low, high = -200.0, log(max(rate.shape, 1.0)) + 10.0
    for _ in range(80):
        middle = (low + high) / 2
        if _below(rate.shape, exp(middle)) < share:
            low = middle
        else:
            high = middle
    return exp(low) / rate.days


def expected_log(rate: Rate) -> float:
    """The mean of the rate's logarithm."""
    return digamma(rate.shape) - log(rate.days)


def digamma(x: float) -> float:
    total = 0.0
    while x < 6.0:
        total -= 1.0 / x
        x += 1.0
    inverse = 1.0 / (x * x)
    return total + log(x) - 0.5 / x - inverse * (1 / 12 - inverse * (1 / 120 - inverse / 252))


def _below(shape: float, x: float) -> float:
    """The regularised lower incomplete gamma function."""
    if x <= 0.0:
        return 0.0
    front = exp(shape * log(x) - x - lgamma(shape)) if shape * log(x) - x - lgamma(shape) > -700 else 0.0
    if x < shape + 1.0:
        return min(1.0, front * _series(shape, x))
    return 1.0 - front * _continued_fraction(shape, x)


def _series(shape: float, x: float) -> float:
    terms = [1.0 / shape]
    step = shape
    while terms[-1] > 1e-17 * terms[0] and len(terms) < 10_000:
        step += 1.0
        terms.append(terms[-1] * x / step)
    return fsum(terms)


def _continued_fraction(shape: float, x: float) -> float:
    """Lentz's method."""
    tiny = 1e-300
    b = x + 1.0 - shape
    c, d = 1.0 / tiny, 1.0 / b
    result = d
    for i in range(1, 10_000):
        step = -i * (i - shape)
        b += 2.0
        d = 1.0 / (step * d + b or tiny)
        c = b + step / c or tiny
        result *= d * c
        if abs(d * c - 1.0) < 1e-15:
            break
    return result
