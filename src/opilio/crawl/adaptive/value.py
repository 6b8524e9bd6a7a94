"""What a crawl is worth, and the interval at which it is worth its price."""

from math import exp, expm1, inf, log, log1p, sqrt

from opilio.crawl.adaptive.change_rate import Rate

_STEPS = 60  # five are usual
_SMALL_STEP = 1e-3  # each step squares the error: the next would change a part in a million
_LONGEST_STEP = 30.0  # of the logarithm


def value(rate: Rate, gap: float) -> float:
    """Expected days of freshness that a crawl wins `gap` days after the last: E[1/λ - (gap + 1/λ)·e^(-λ·gap)].

    It rises with the gap. Below a shape of 1 it has no upper limit: an uncertain page is always crawled some day.
    """
    shape, days = rate.shape, rate.days
    fade = -log1p(gap / days)
    beyond = shape - 1.0
    fresh = -days * fade if beyond == 0.0 else days * -expm1(beyond * fade) / beyond
    return fresh - gap * exp(shape * fade)


def interval(rate: Rate, price: float, shortest: float, longest: float) -> float:
    """The shortest interval in days whose crawl is worth `price` (per unit of weight), within the bounds.

    Newton's method on the logarithms of value and interval: their curve bends down, so that each step from the left
    ends left of the solution. It starts where the first term of the value, rate·gap²/2, reaches the price.
    """
    shape, days = rate.shape, rate.days
    beyond = shape - 1.0
    if price * beyond >= days:  # more than the value can ever reach
        return longest
    scale = -days / beyond if beyond else 0.0
    gap = max(sqrt(2.0 * price * days / shape), shortest)
    for _ in range(_STEPS):
        if gap >= longest:
            return longest
        fade = -log1p(gap / days)
        missed = gap * exp(shape * fade)
        worth = (scale * expm1(beyond * fade) if beyond else -days * fade) - missed
        if worth >= price:
            return gap
        slope = gap * shape * missed / (days + gap)  # of the value, by the logarithm of the gap
        if slope <= 0.0:  # a value that doubles cannot tell from its limit
            return longest
        if worth <= 0.0:  # … from nothing: there the first term is exact
            return gap
        step = log(price / worth) * worth / slope
        gap *= exp(min(_LONGEST_STEP, step))
        if step < _SMALL_STEP:
            break
    return min(gap, longest)


def freshness(rate: Rate, gap: float) -> float:
    """The expected share of time that a page crawled every `gap` days is up to date."""
    shape, days = rate.shape, rate.days
    fade = -log1p(gap / days)
    beyond = shape - 1.0
    fresh = -days * fade if beyond == 0.0 else days * -expm1(beyond * fade) / beyond
    return min(1.0, fresh / gap)


def known_interval(rate: float, price: float) -> float:
    """The optimal interval for a rate that is known for certain: 1 - (1 + x)·e^-x = price·rate, x = rate·interval."""
    share = price * rate
    if share <= 0.0 or share >= 1.0:
        return inf
    x = sqrt(2.0 * share) if share < 0.5 else 2.0 - log(1.0 - share)
    for _ in range(60):
        step = (-expm1(-x) - x * exp(-x) - share) / (x * exp(-x))
        moved = max(x - step, x * 0.5) if step > 0 else min(x - step, x * 2.0)
        if abs(moved - x) < 1e-12 * x:
            break
        x = moved
    return x / rate
