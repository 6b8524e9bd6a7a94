"""Why a policy or job is not being crawled now."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from opilio.contracts.management import Reason, Why
from opilio.crawl.politeness import Limits

# A bot that has not pulled for this long counts as gone.
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
    bot_below_cap: bool
    bot_cap: int
    active: bool
    place: str | None
    run_at: datetime | None
    retry_count: int
    max_retries: int
    locked_by: str | None
    locked_until: datetime | None
    adaptive: str | None = None
    """Why an adaptive policy has the interval that it has."""
    budget_per_day: float | None = None
    """The budget that its next job waits for, if it waits for one."""
    brought_forward: bool = False
    """It became due before its time, because other pages of its folder changed."""


@dataclass(frozen=True, slots=True)
class WhyReason:
    """One reason: a code for programs, a template and its parameters for people."""

    code: str
    template: str
    params: dict[str, Any] = field(default_factory=dict)
    until: datetime | None = None

    @property
    def message(self) -> str:
        return self.template % self.params


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why something is not being crawled now."""

    running: bool
    reasons: list[WhyReason]

    def as_answer(self) -> Why:
        reasons = [Reason(code=r.code, message=r.message, until=r.until) for r in self.reasons]
        return Why(running=self.running, reasons=reasons)


def explain(facts: Facts, now: datetime) -> Explanation:
    """Every reason at once, the nearest first; none means that a bot may get it at its next pull."""
    if facts.place == "locked":
        locked = WhyReason(
            "locked", "it is being crawled by %(bot_id)s", {"bot_id": facts.locked_by}, facts.locked_until
        )
        return Explanation(running=True, reasons=[locked])
    reasons = (
        _disabled(facts),
        _waiting_retry(facts, now),
        _not_due(facts, now),
        _over_budget(facts, now),
        _cooling(facts, now),
        _delay(facts, now),
        _at_cap(facts),
        _no_bot(facts, now),
        _bots_at_cap(facts, now),
    )
    return Explanation(running=False, reasons=[reason for reason in reasons if reason is not None])


def _disabled(facts: Facts) -> WhyReason | None:
    if facts.enabled:
        return None
    return WhyReason("disabled", "the policy is disabled; enable it to crawl this URL again")


def _waiting_retry(facts: Facts, now: datetime) -> WhyReason | None:
    if not facts.active or facts.run_at is None or facts.run_at <= now or not facts.enabled:
        return None
    return WhyReason(
        "waiting_retry",
        "the last crawl failed; retry %(retry)s of %(most)s waits until %(at)s UTC",
        {"retry": facts.retry_count, "most": facts.max_retries, "at": f"{facts.run_at:%H:%M:%S}"},
        facts.run_at,
    )


def _not_due(facts: Facts, now: datetime) -> WhyReason | None:
    if facts.active or facts.next_run_at <= now:
        return None
    at = f"{facts.next_run_at:%Y-%m-%d %H:%M:%S}"
    if facts.adaptive:
        template = "it is due at %(at)s UTC: it %(why)s"
        return WhyReason("not_due", template, {"at": at, "why": facts.adaptive}, facts.next_run_at)
    return WhyReason("not_due", "it is due at %(at)s UTC", {"at": at}, facts.next_run_at)


def _over_budget(facts: Facts, now: datetime) -> WhyReason | None:
    if facts.active or facts.budget_per_day is None or facts.next_run_at > now or not facts.enabled:
        return None
    template = "it is due, and waits for its turn within the budget of %(budget)s crawls a day"
    if facts.brought_forward:
        template = (
            "it was brought forward because other pages of its folder changed, and waits for its turn within the "
            "budget of %(budget)s crawls a day"
        )
    return WhyReason("over_budget", template, {"budget": f"{facts.budget_per_day:.0f}"})


def _cooling(facts: Facts, now: datetime) -> WhyReason | None:
    if facts.cooling_until <= now:
        return None
    if facts.cooling_reason is None:
        return WhyReason(
            "host_cooling",
            "%(host)s asked to be left alone; nobody visits it before then",
            {"host": facts.host},
            facts.cooling_until,
        )
    return WhyReason(
        "host_cooling",
        "%(why)s; nobody visits it before then",
        {"why": facts.cooling_reason},
        facts.cooling_until,
    )


def _delay(facts: Facts, now: datetime) -> WhyReason | None:
    if not facts.limits.min_delay_seconds or facts.host_next_at <= now:
        return None
    params = {"host": facts.host, "seconds": f"{facts.limits.min_delay_seconds:g}"}
    return WhyReason(
        "host_cooling", "%(host)s is visited every %(seconds)s s at most", params, facts.host_next_at
    )


def _at_cap(facts: Facts) -> WhyReason | None:
    cap = facts.limits.max_concurrent
    if cap is None or facts.held < cap:
        return None
    params = {"host": facts.host, "held": facts.held, "cap": cap}
    return WhyReason("host_at_cap", "%(host)s has %(held)s of %(cap)s jobs running at once", params)


def _no_bot(facts: Facts, now: datetime) -> WhyReason | None:
    if facts.bot_seen_at is None:
        return WhyReason(
            "no_capable_bot", "no bot with the capability %(queue)s was ever seen", {"queue": facts.queue}
        )
    if facts.bot_seen_at > now - _BOT_IS_GONE:
        return None
    minutes = int((now - facts.bot_seen_at).total_seconds() // 60)
    return WhyReason(
        "no_capable_bot",
        "no bot with the capability %(queue)s was seen for %(minutes)s min",
        {"queue": facts.queue, "minutes": minutes},
    )


def _bots_at_cap(facts: Facts, now: datetime) -> WhyReason | None:
    if facts.bot_below_cap or facts.bot_seen_at is None or facts.bot_seen_at <= now - _BOT_IS_GONE:
        return None
    return WhyReason(
        "bot_at_cap",
        "every bot with the capability %(queue)s holds its most of %(cap)s locked jobs",
        {"queue": facts.queue, "cap": facts.bot_cap},
    )


def brief(
    run_at: datetime | None, cooling_until: datetime | None, bot_seen_at: datetime | None, now: datetime
) -> tuple[str, datetime | None] | None:
    """The nearest reason for a pending job in a list, from what is known without asking for each of them."""
    if run_at is not None and run_at > now:
        return "waiting_retry", run_at
    if cooling_until is not None and cooling_until > now:
        return "host_cooling", cooling_until
    if bot_seen_at is None or bot_seen_at <= now - _BOT_IS_GONE:
        return "no_capable_bot", None
    return None
