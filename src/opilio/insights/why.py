"""Why is this not being crawled now? The answer, from the real state."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from opilio.contracts.management import Reason, Why
from opilio.crawl.politeness import Limits

# A bot that has not asked for this long is not counted on.
_BOT_IS_GONE = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class Facts:
    """What decides whether a policy, or its active job, is crawled now."""

    enabled: bool
    next_run_at: datetime
    host: str
    limits: Limits
    host_next_at: datetime
    cooling_until: datetime
    cooling_reason: str | None
    held: int
    queue: str
    bot_seen_at: datetime | None
    active: bool
    place: str | None
    run_at: datetime | None
    retry_count: int
    max_retries: int
    locked_by: str | None
    locked_until: datetime | None


def explain(facts: Facts, now: datetime) -> Why:
    """Every reason at once, the nearest first; none means that a bot may get it at its next pull."""
    if facts.place == "locked":
        message = f"it is being crawled by {facts.locked_by}"
        return Why(running=True, reasons=[Reason(code="locked", message=message, until=facts.locked_until)])
    reasons = [
        reason
        for reason in (
            _disabled(facts),
            _waiting_retry(facts, now),
            _not_due(facts, now),
            _cooling(facts, now),
            _spacing(facts, now),
            _at_cap(facts),
            _no_bot(facts, now),
        )
        if reason is not None
    ]
    return Why(running=False, reasons=reasons)


def _disabled(facts: Facts) -> Reason | None:
    if facts.enabled:
        return None
    return Reason(code="disabled", message="the policy is disabled; enable it to crawl this URL again")


def _waiting_retry(facts: Facts, now: datetime) -> Reason | None:
    if not facts.active or facts.run_at is None or facts.run_at <= now or not facts.enabled:
        return None
    message = f"the last crawl failed; retry {facts.retry_count} of {facts.max_retries} waits until {facts.run_at:%H:%M:%S} UTC"
    return Reason(code="waiting_retry", message=message, until=facts.run_at)


def _not_due(facts: Facts, now: datetime) -> Reason | None:
    if facts.active or facts.next_run_at <= now:
        return None
    return Reason(
        code="not_due",
        message=f"it is due at {facts.next_run_at:%Y-%m-%d %H:%M:%S} UTC",
        until=facts.next_run_at,
    )


def _cooling(facts: Facts, now: datetime) -> Reason | None:
    if facts.cooling_until <= now:
        return None
    why = facts.cooling_reason or f"{facts.host} asked to be left alone"
    return Reason(
        code="host_cooling", message=f"{why}; nobody visits it before then", until=facts.cooling_until
    )


def _spacing(facts: Facts, now: datetime) -> Reason | None:
    if not facts.limits.min_delay_seconds or facts.host_next_at <= now:
        return None
    message = f"{facts.host} is visited every {facts.limits.min_delay_seconds:g} s at most"
    return Reason(code="host_cooling", message=message, until=facts.host_next_at)


def _at_cap(facts: Facts) -> Reason | None:
    cap = facts.limits.max_concurrent
    if cap is None or facts.held < cap:
        return None
    return Reason(code="host_at_cap", message=f"{facts.host} has {facts.held} of {cap} jobs running at once")


def _no_bot(facts: Facts, now: datetime) -> Reason | None:
    if facts.bot_seen_at is None:
        return Reason(
            code="no_capable_bot", message=f"no bot with the capability {facts.queue} was ever seen"
        )
    if facts.bot_seen_at > now - _BOT_IS_GONE:
        return None
    minutes = int((now - facts.bot_seen_at).total_seconds() // 60)
    return Reason(
        code="no_capable_bot", message=f"no bot with the capability {facts.queue} was seen for {minutes} min"
    )
