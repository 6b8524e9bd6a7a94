"""Exact freshness and delay of a replay, weighted by importance."""

from bisect import bisect_right

import msgspec

from opilio.crawl.adaptive.simulation.trace import Trace


class Score(msgspec.Struct, frozen=True):
    """What a rule reached after the warm-up."""

    freshness: float
    """Share of time that the stored copy was the page's current state."""
    staleness: float
    delay_days: float
    """Mean time from a change to the visit that saw it."""
    crawls: int
    series: tuple[float, ...] = ()
    """Freshness in equal parts of the whole history, warm-up included."""


PARTS = 60


class Scorer:
    """Follows each page's stored copy through its visits."""

    def __init__(self, trace: Trace, start: float, end: float) -> None:
        self._trace = trace
        self._start, self._end = start, end
        pages = len(trace.urls)
        self._last: list[float | None] = [None] * pages
        self._seen = [0] * pages  # changes that the stored copy contains
        self._stale = [0.0] * pages
        self._delay = self._delay_weight = 0.0
        self._crawls = 0
        self._parts = [0.0] * PARTS
        self._part = end / PARTS

    def visit(self, page: int, now: float) -> tuple[float | None, bool]:
        """The gap since the last visit, and whether the page changed in it."""
        if now >= self._start:
            self._crawls += 1
        last = self._last[page]
        changed = self._pass(page, now)
        self._last[page] = now
        return (None, False) if last is None else (now - last, changed)

    def _pass(self, page: int, now: float) -> bool:
        """Accounts for the time since the last visit."""
        times, seen = self._trace.changes[page], self._seen[page]
        changed = seen < len(times) and times[seen] <= now
        if self._last[page] is None:
            stale_from = 0.0
        elif changed:
            stale_from = times[seen]
        else:
            return False
        self._stale[page] += max(0.0, now - max(stale_from, self._start))
        self._spread(stale_from, now, self._trace.weights[page])
        if changed:
            self._seen[page] = upto = bisect_right(times, now, seen)
            if self._last[page] is not None and now >= self._start:
                fresh = [now - time for time in times[seen:upto] if time >= self._start]
                weight = self._trace.weights[page]
                self._delay += weight * sum(fresh)
                self._delay_weight += weight * len(fresh)
        return changed

    def _spread(self, start: float, end: float, weight: float) -> None:
        """Adds a stale spell to the parts of the history that it touches."""
        part = int(start / self._part)
        while start < end and part < PARTS:
            until = min(end, (part + 1) * self._part)
            self._parts[part] += weight * (until - start)
            start, part = until, part + 1

    def score(self) -> Score:
        """Ends the replay: what was not visited again stays stale until the end."""
        for page in range(len(self._last)):
            self._pass(page, self._end)
        weights = self._trace.weights
        window = (self._end - self._start) * sum(weights)
        staleness = sum(w * s for w, s in zip(weights, self._stale, strict=True)) / window
        delay = self._delay / self._delay_weight if self._delay_weight else 0.0
        whole = self._part * sum(weights)
        series = tuple(1.0 - stale / whole for stale in self._parts)
        return Score(1.0 - staleness, staleness, delay, self._crawls, series)
