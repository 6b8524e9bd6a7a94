"""What a response means for a delivery and for its endpoint."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from opilio.backoff import doubling

FAILURES_BEFORE_BACKOFF = 3
FIRST_BACKOFF, LONGEST_BACKOFF = timedelta(seconds=5), timedelta(minutes=5)
PAUSED_AFTER = timedelta(days=5)
_THROTTLED = {429, 502, 503, 504}


class ResponseKind(StrEnum):
    """How an attempt ended."""

    DELIVERED = "delivered"
    FAILED = "failed"  # the endpoint refused, or answered something unknown
    UNREACHABLE = "unreachable"  # there was no response: its host may be down for other endpoints too
    GONE = "gone"  # 410 Gone: no more deliveries


@dataclass(frozen=True, slots=True)
class Response:
    """What came back, or why nothing did."""

    status: int | None
    latency_ms: float
    body_start: str = ""
    retry_after: timedelta | None = None
    error: str | None = None

    @property
    def kind(self) -> ResponseKind:
        if self.status is None:
            return ResponseKind.UNREACHABLE
        if 200 <= self.status < 300:
            return ResponseKind.DELIVERED
        return ResponseKind.GONE if self.status == 410 else ResponseKind.FAILED

    @property
    def error_text(self) -> str | None:
        """Why it does not count as delivered."""
        if self.kind is ResponseKind.DELIVERED:
            return None
        if self.status is not None and 300 <= self.status < 400:
            return f"answered {self.status}: redirects are not followed"
        return self.error or f"answered {self.status}"


@dataclass(frozen=True, slots=True)
class Health:
    """The endpoint's recent failures."""

    failures: int = 0  # in a row
    failing_since: datetime | None = None
    closed_until: datetime | None = None

    def after(self, response: Response, now: datetime) -> "Health":
        if response.kind is ResponseKind.DELIVERED:
            return Health()
        failures = self.failures + 1
        pause = _backoff(failures)
        if response.retry_after and response.status in _THROTTLED:
            pause = max(pause, response.retry_after)
        return Health(failures, self.failing_since or now, now + pause if pause else None)

    def failed_too_long(self, now: datetime) -> bool:
        return self.failing_since is not None and now - self.failing_since >= PAUSED_AFTER


def _backoff(failures: int) -> timedelta:
    if failures < FAILURES_BEFORE_BACKOFF:
        return timedelta(0)
    return doubling(FIRST_BACKOFF, failures - FAILURES_BEFORE_BACKOFF + 1, LONGEST_BACKOFF)


class HostLimits:
    """How many batches a host may have at once; a host that does not answer gets one for all its endpoints."""

    def __init__(self, most_at_once: int) -> None:
        self._most = most_at_once
        self._running: dict[str, int] = {}
        self._unreachable: dict[str, int] = {}

    def begin(self, host: str) -> None:
        self._running[host] = self._running.get(host, 0) + 1

    def end(self, host: str, kinds: list[ResponseKind]) -> None:
        left = self._running.get(host, 1) - 1
        if left:
            self._running[host] = left
        else:
            self._running.pop(host, None)
        for kind in kinds:
            if kind is ResponseKind.UNREACHABLE:
                self._unreachable[host] = self._unreachable.get(host, 0) + 1
            else:
                self._unreachable.pop(host, None)

    def free(self) -> dict[str, int]:
        """How many more batches each host may have, for hosts that are in use or do not answer."""
        known = self._running.keys() | self._unreachable.keys()
        return {host: self._limit(host) - self._running.get(host, 0) for host in known}

    def full(self) -> list[str]:
        return [host for host, free in self.free().items() if free <= 0]

    def _limit(self, host: str) -> int:
        return 1 if self._unreachable.get(host, 0) >= FAILURES_BEFORE_BACKOFF else self._most
