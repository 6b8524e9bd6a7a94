"""What an answer means for a delivery and for its endpoint."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from opilio.backoff import doubling

FAILURES_BEFORE_COOLING = 3
COOLING, LONGEST_COOLING = timedelta(seconds=5), timedelta(minutes=5)
PAUSED_AFTER = timedelta(days=5)
_THROTTLED = {429, 502, 503, 504}


class Meaning(StrEnum):
    """How an attempt ended."""

    DELIVERED = "delivered"
    FAILED = "failed"  # the endpoint said no, or nothing that we understand
    UNREACHABLE = "unreachable"  # there was no answer: its host may be down for others too
    GONE = "gone"  # 410: it wants no more


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, or why nothing did."""

    status: int | None
    latency_ms: float
    head: str = ""
    retry_after: timedelta | None = None
    error: str | None = None

    @property
    def meaning(self) -> Meaning:
        if self.status is None:
            return Meaning.UNREACHABLE
        if 200 <= self.status < 300:
            return Meaning.DELIVERED
        return Meaning.GONE if self.status == 410 else Meaning.FAILED

    @property
    def complaint(self) -> str | None:
        """Why it did not count as delivered, for a person."""
        if self.meaning is Meaning.DELIVERED:
            return None
        if self.status is not None and 300 <= self.status < 400:
            return f"answered {self.status}: redirects are not followed"
        return self.error or f"answered {self.status}"


@dataclass(frozen=True, slots=True)
class Health:
    """How an endpoint has been doing."""

    failures: int = 0  # in a row
    failing_since: datetime | None = None
    closed_until: datetime | None = None

    def after(self, answer: Answer, now: datetime) -> "Health":
        if answer.meaning is Meaning.DELIVERED:
            return Health()
        failures = self.failures + 1
        pause = _cooling(failures)
        if answer.retry_after and answer.status in _THROTTLED:
            pause = max(pause, answer.retry_after)
        return Health(failures, self.failing_since or now, now + pause if pause else None)

    @property
    def on_probation(self) -> bool:
        """Failed often enough that one delivery at a time is tried."""
        return self.failures >= FAILURES_BEFORE_COOLING

    def failed_too_long(self, now: datetime) -> bool:
        return self.failing_since is not None and now - self.failing_since >= PAUSED_AFTER


def _cooling(failures: int) -> timedelta:
    if failures < FAILURES_BEFORE_COOLING:
        return timedelta(0)
    return doubling(COOLING, failures - FAILURES_BEFORE_COOLING + 1, LONGEST_COOLING)


class HostWatch:
    """Keeps a host that does not answer from taking every place: all its endpoints share one."""

    def __init__(self, most_at_once: int) -> None:
        self._most = most_at_once
        self._at_once: dict[str, int] = {}
        self._unreachable: dict[str, int] = {}

    def enter(self, host: str) -> None:
        self._at_once[host] = self._at_once.get(host, 0) + 1

    def leave(self, host: str, meanings: list[Meaning]) -> None:
        left = self._at_once.get(host, 1) - 1
        if left:
            self._at_once[host] = left
        else:
            self._at_once.pop(host, None)
        for meaning in meanings:
            if meaning is Meaning.UNREACHABLE:
                self._unreachable[host] = self._unreachable.get(host, 0) + 1
            else:
                self._unreachable.pop(host, None)

    def rooms(self) -> dict[str, int]:
        """How many further places each host may take, for hosts that are in use or do not answer."""
        known = self._at_once.keys() | self._unreachable.keys()
        return {host: self._room(host) - self._at_once.get(host, 0) for host in known}

    def _room(self, host: str) -> int:
        return 1 if self._unreachable.get(host, 0) >= FAILURES_BEFORE_COOLING else self._most
