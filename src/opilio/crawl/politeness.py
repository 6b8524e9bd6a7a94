"""How often and how widely a host may be visited; decided here because only the dispatcher sees all bots."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from opilio.backoff import doubling

_FIRST_COOLING = timedelta(seconds=60)
_LONGEST_COOLING = timedelta(hours=1)
_LONGEST_ASKED = timedelta(days=1)
FORGIVEN_AFTER = timedelta(minutes=30)
# How soon the gate of a host at its cap is looked at again if no lock of it ends: a safety net, not the way.
PROBE = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Limits:
    """A cap on jobs locked at once and a delay between hand-outs; None is no limit."""

    max_concurrent: int | None = None
    min_delay_seconds: float | None = None

    @property
    def any(self) -> bool:
        return self.max_concurrent is not None or bool(self.min_delay_seconds)

    def over(self, fleet: "Limits") -> "Limits":
        """These limits where they are set, the fleet's default elsewhere."""
        return Limits(
            fleet.max_concurrent if self.max_concurrent is None else self.max_concurrent,
            fleet.min_delay_seconds if self.min_delay_seconds is None else self.min_delay_seconds,
        )


@dataclass(frozen=True, slots=True)
class HostState:
    limits: Limits
    next_at: datetime
    cooling_until: datetime
    held: int


def allowance(host: HostState, now: datetime, wanted: int) -> int:
    """How many jobs of a host one pull may take now."""
    if host.cooling_until > now:
        return 0
    if host.limits.min_delay_seconds:
        wanted = min(wanted, 1 if host.next_at <= now else 0)
    if host.limits.max_concurrent is not None:
        wanted = min(wanted, max(0, host.limits.max_concurrent - host.held))
    return wanted


def next_visit(host: HostState, now: datetime, taken: int) -> datetime:
    """The earliest next hand-out, after `taken` jobs went out."""
    if taken and host.limits.min_delay_seconds:
        return now + timedelta(seconds=host.limits.min_delay_seconds)
    return host.next_at


def polite_at(host: HostState, now: datetime, taken: int) -> datetime:
    """The earliest visit that cooling and delay allow, after `taken` jobs went out."""
    opens = max(host.cooling_until, now)
    if host.limits.min_delay_seconds:
        opens = max(opens, next_visit(host, now, taken))
    return opens


def reopens_at(host: HostState, now: datetime, taken: int) -> datetime:
    """When a pull should look at this host again; at its cap, a lock that ends opens the gate itself."""
    at_cap = host.limits.max_concurrent is not None and host.held + taken >= host.limits.max_concurrent
    return max(polite_at(host, now, taken), now + PROBE) if at_cap else polite_at(host, now, taken)


@dataclass(frozen=True, slots=True)
class Cooling:
    until: datetime
    strikes: int


def cool_down(now: datetime, cooling_until: datetime, strikes: int, retry_after: float | None) -> Cooling:
    """A host said 429 or 503: no visits for as long as it asked, or for a minute, doubling with each strike; strikes decay."""
    strikes = 0 if cooling_until < now - FORGIVEN_AFTER else strikes
    if retry_after is not None:
        wait = min(timedelta(seconds=min(retry_after, _LONGEST_ASKED.total_seconds())), _LONGEST_ASKED)
    else:
        wait = doubling(_FIRST_COOLING, strikes + 1, _LONGEST_COOLING)
    return Cooling(max(cooling_until, now + wait), min(strikes + 1, 30))
