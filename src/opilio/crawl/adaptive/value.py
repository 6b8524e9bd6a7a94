"""What a crawl is worth, and the interval at which it is worth its price."""

from math import exp, expm1, inf, log, log1p, sqrt

from opilio.crawl.adaptive.change_rate import Rate

_STEPS = 20  # halvings of the logarithm of the interval: five decades to one part in 100,000


def value(rate: Rate, gap: float) -> float:
    """Expected days of freshness that a crawl wins `gap` days after the last: E[1/λ - (gap + 1/λ)·e^(-λ·gap)].

    It rises with the gap. Below a shape of 1 it has no upper limit: an uncertain page is always crawled some day.
    """
    shape, days = rate
    fade = -log1p(gap / days)
    beyond = shape - 1.0
    fresh = -days * fade if beyond == 0.0 else days * -expm1(beyond * fade) / beyond
    return fresh - gap * exp(shape * fade)


def interval(rate: Rate, price: float, shortest: float, longest: float) -> float:
    """The shortest interval in days whose crawl is worth `price` (per unit of weight), within the bounds."""
    if value(rate, longest) <= price:
        return longest
    if value(rate, shortest) >= price:
        return shortest
    shape, days = rate
    beyond = shape - 1.0
    low, high = log(shortest), log(longest)
    for _ in range(_STEPS):
        middle = (low + high) * 0.5
        gap = exp(middle)
        fade = -log1p(gap / days)
        fresh = -days * fade if beyond == 0.0 else days * -expm1(beyond * fade) / beyond
        if fresh - gap * exp(shape * fade) < price:
            low = middle
        else:
            high = middle
    return exp(high)


def freshness(rate: Rate, gap: float) -> float:
    """The expected share of time that a page crawled every `gap` days is up to date."""
    shape, days = rate
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
