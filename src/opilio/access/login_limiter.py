"""Limits how often passwords and login links can be guessed."""

import time
from collections import OrderedDict, deque
from collections.abc import Callable

from opilio.errors import Refused

_WINDOW_SECONDS = 60.0
# One address may be an office behind one proxy: many people, each with a limit of their own below this one.
_PER_ADDRESS_FACTOR = 10
_MOST_KEYS = 20_000


class LoginLimiter:
    """Counts attempts of the last minute by address and name, and by address; one process has one.

    An attempt counts from its beginning, so that many at once cannot all pass; a successful one is taken back.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._attempts: OrderedDict[tuple[str, ...], deque[float]] = OrderedDict()

    def count(self, address: str, name: str) -> None:
        """Counts an attempt; raises `rate_limited` without counting it when there were too many."""
        limits = {(address, name): self._per_minute, (address,): self._per_minute * _PER_ADDRESS_FACTOR}
        now = self._clock()
        for key, most in limits.items():
            recent = self._recent(key, now)
            if len(recent) >= most:
                wait = max(1, int(_WINDOW_SECONDS + 1 - (now - recent[0])))
                raise Refused(
                    "rate_limited",
                    "too many login attempts; try again in %(seconds)s s",
                    {"retry_after": wait},
                    seconds=wait,
                )
        for key in limits:
            self._recent(key, now).append(now)

    def take_back(self, address: str, name: str) -> None:
        """The attempt was right: it does not count."""
        for key in ((address, name), (address,)):
            recent = self._attempts.get(key)
            if recent:
                recent.pop()

    def _recent(self, key: tuple[str, ...], now: float) -> deque[float]:
        recent = self._attempts.setdefault(key, deque())
        self._attempts.move_to_end(key)
        while recent and recent[0] <= now - _WINDOW_SECONDS:
            recent.popleft()
        if len(self._attempts) > _MOST_KEYS:
            self._attempts.popitem(last=False)
        return recent
