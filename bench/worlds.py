"""Synthetic worlds of changing pages: hosts, rates, daily pages, importance; made from a seed alone."""

from array import array
from dataclasses import dataclass
from math import exp, log
from random import Random

from bench.size import scaled
from opilio.crawl.adaptive.simulation.trace import Trace

PAGES, HOSTS, DAYS = scaled(10_000, 300), 150, 90.0
_SLOWEST, _FASTEST = 1 / 1000, 100.0
_SPREAD = 3.05  # of the logarithm of the rate; 40 % of its variance belongs to the host
_MEDIAN = 1 / 11


@dataclass(frozen=True)
class World:
    trace: Trace
    rates: list[float]
    redrawn: tuple[float, list[float]] | None = None
    """When rates were redrawn, and what they are since."""

    def host_limits(self, budget: float) -> dict[str, float]:
        """No host gets more than 8 % of the crawls."""
        return dict.fromkeys(self.trace.hosts(), 0.08 * budget * len(self.rates))


def make(
    seed: int, *, pages: int = PAGES, days: float = DAYS, zipf: float = 0.8, drift: float = 0.0
) -> World:
    """`drift` is the share of pages whose rate is drawn again on day 45."""
    random = Random(seed)
    sizes = [1 / rank for rank in range(1, HOSTS + 1)]
    hosts = random.choices(range(HOSTS), sizes, k=pages)
    host_effect = [random.gauss(0, _SPREAD * 0.4**0.5) for _ in range(HOSTS)]
    host_hour = [random.random() for _ in range(HOSTS)]
    ranks = list(range(1, pages + 1))
    random.shuffle(ranks)
    total = sum(rank**-zipf for rank in ranks)
    changes, rates, later = [], [], []
    for host in hosts:
        kind = random.random()
        if kind < 0.145:
            rate, times = 0.0, array("d")
        elif kind < 0.25:
            rate, times = 0.9, _daily(random, host_hour[host], days)
        else:
            rate = _rate(random, host_effect[host])
            times = _poisson(random, rate, 0.0, days)
        rates.append(rate)
        if drift and kind >= 0.25 and random.random() < drift:
            rate = _rate(random, host_effect[host])
            times = array("d", [time for time in times if time < 45.0]) + _poisson(random, rate, 45.0, days)
        later.append(rate)
        changes.append(times)
    trace = Trace(
        urls=[f"https://host{host}.example/{page}" for page, host in enumerate(hosts)],
        weights=[rank**-zipf / total * pages for rank in ranks],
        changes=changes,
        days=days,
    )
    return World(trace, rates, (45.0, later) if drift else None)


def _rate(random: Random, host_effect: float) -> float:
    drawn = exp(log(_MEDIAN) + host_effect + random.gauss(0, _SPREAD * 0.6**0.5))
    return min(max(drawn, _SLOWEST), _FASTEST)


def _poisson(random: Random, rate: float, start: float, end: float) -> "array[float]":
    times = array("d")
    time = start + random.expovariate(rate)
    while time < end:
        times.append(time)
        time += random.expovariate(rate)
    return times


def _daily(random: Random, hour: float, days: float) -> "array[float]":
    """Nine days in ten, at the host's hour give or take 20 minutes."""
    times = (
        day + hour + random.uniform(-1, 1) / 72 for day in range(-1, int(days) + 1) if random.random() < 0.9
    )
    return array("d", sorted(time for time in times if 0 < time < days))
