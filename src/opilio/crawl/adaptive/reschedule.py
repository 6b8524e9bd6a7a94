"""A successful visit of an adaptive policy: what it teaches and when the next one comes. No I/O."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from email.utils import parsedate_to_datetime
from functools import lru_cache
from struct import Struct
from typing import Any

import msgspec

from opilio.crawl.adaptive import phase
from opilio.crawl.adaptive.change_rate import NOTHING, Rate
from opilio.crawl.adaptive.habit import HOURS, USUAL, Evidence, Habit, habit
from opilio.crawl.adaptive.prior import from_base
from opilio.crawl.adaptive.rule import Learnt, Terms, Visit, learn, plan, weight_of
from opilio.crawl.history import Change, Scalar, Values, tracked

SHORTEST_HOURS = 0.25
HOT = 20
"""Points that `hot` adds to the priority when a page is weighed, as in the default rules."""
_LONGEST_DAYS = 30.0
_DAY = 86400.0
_HOURS = Struct(f"<{HOURS}f")
_DYNAMIC = timedelta(minutes=1)  # a page that was modified when it was fetched is made for each visitor
Row = Mapping[str, Any]


class Rescheduled(msgspec.Struct, frozen=True, kw_only=True):
    """The next visit and what is kept of this one, as the columns of the policy's row; nothing for a fixed schedule."""

    next_run_at: datetime | None = None
    early_at: datetime | None = None
    interval_days: float | None = None
    price_used: float | None = None
    # ── none when the visit taught nothing ──
    gap_days: float | None = None
    rate_shape: float | None = None
    rate_days: float | None = None
    daily_hours: bytes | None = None
    surprise: float | None = None
    visits: int = 0
    changes_seen: int = 0
    siblings: bool = False
    """Whether the other pages of its folder are looked at because of it."""


FIXED = Rescheduled()


def pack_hours(hours: Sequence[float]) -> bytes:
    return _HOURS.pack(*hours)


def unpack_hours(packed: bytes | None) -> Evidence:
    return _HOURS.unpack(packed) if packed else phase.UNKNOWN


@lru_cache(maxsize=4096)  # one for each host
def habit_of(packed: bytes | None) -> Habit:
    return habit(_HOURS.unpack(packed)) if packed else USUAL


def significant(changes: Sequence[Change], tolerance: Mapping[str, float]) -> bool:
    """Whether any field moved by more than its tolerance, in per cent."""
    if not tolerance:
        return bool(changes)
    return any(
        change.field not in tolerance or not _within(change.old, change.new, tolerance[change.field])
        for change in changes
    )


def _within(old: Scalar, new: Scalar, percent: float) -> bool:
    numbers = int | float | Decimal
    if isinstance(old, bool) or isinstance(new, bool):
        return False
    if not isinstance(old, numbers) or not isinstance(new, numbers) or not old:
        return False
    return abs(float(new) - float(old)) <= abs(float(old)) * percent / 100


def has_changed(
    row: Row,
    values: Values,
    changes: Sequence[Change],
    html_hash: str | None,
    *,
    not_modified: bool,
    tolerance: Mapping[str, float],
) -> bool | None:
    """Whether the page changed since its last visit; None when nobody can tell, as at the first."""
    if row["last_success_at"] is None:
        return None
    if not_modified:
        return False
    if _has_values(values):
        return significant(changes, tolerance)
    if html_hash and row["last_html_hash"]:
        return bool(html_hash != row["last_html_hash"])
    return None


def _has_values(values: Values) -> bool:
    return (
        values.price is not None
        or values.title is not None
        or values.in_stock is not None
        or any(value is not None for value in tracked(values.data).values())
    )


def change_time(
    row: Row, now: datetime, changed_at: datetime | None, last_modified: str | None
) -> datetime | None:
    """When the page changed, if the bot or the page's own Last-Modified can be trusted to know."""
    if changed_at is not None:
        return changed_at
    if not last_modified or last_modified == row["last_modified"]:
        return None
    try:
        at = parsedate_to_datetime(last_modified)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return at if at < now - _DYNAMIC else None


def prior_of(row: Row) -> Rate:
    """The host's prior, else everyone's, else one at the scale of the base frequency."""
    days = row["prior_days"]
    return from_base(row["frequency_hours"] / 24) if days is None else Rate(row["prior_shape"], days)


def terms_of(row: Row) -> Terms:
    shortest = (row["min_interval_hours"] or SHORTEST_HOURS) / 24
    most = row["max_interval_hours"]
    longest = most / 24 if most else row["longest_days"] or _LONGEST_DAYS
    weight = weight_of(min(100, row["importance"] + HOT * row["hot"]))
    return Terms(weight, row["price"] or 0.0, min(longest, shortest), longest)


def learnt_of(row: Row) -> Learnt:
    days = row["rate_days"]
    evidence = NOTHING if days is None else Rate(row["rate_shape"], days)
    return Learnt(evidence, unpack_hours(row["daily_hours"]))


def reschedule(
    row: Row, at: datetime, changed: bool | None, changed_at: datetime | None, chance: tuple[float, float]
) -> Rescheduled:
    """Before the first price is known, the base frequency decides."""
    seconds = at.timestamp()
    now = seconds / _DAY
    prior, learnt = prior_of(row), learnt_of(row)
    known, gap = learnt, None
    if changed is not None:
        stamp = changed_at.timestamp() / _DAY if changed_at else None
        last = row["last_success_at"].timestamp() / _DAY
        known = learn(learnt, prior, Visit(last, now, changed, stamp))
        gap = now - last
    price = row["price"]
    if price is None:
        wait = early = days = row["frequency_hours"] / 24
    else:
        planned = plan(
            known,
            prior,
            terms_of(row),
            now,
            chance,
            changed=bool(changed),
            habit=habit_of(row["prior_hours"]),
        )
        wait, early, days = planned.days, planned.early, planned.interval
    # From seconds: a timedelta of a fraction of days takes twice as long.
    next_run_at = datetime.fromtimestamp(seconds + wait * _DAY, UTC)
    early_at = datetime.fromtimestamp(seconds + early * _DAY, UTC)
    siblings = bool(changed) and row["siblings"] is not None
    if known is learnt:
        return Rescheduled(
            next_run_at=next_run_at,
            early_at=early_at,
            interval_days=days,
            price_used=price or 0.0,
            changes_seen=int(bool(changed)),
            siblings=siblings,
        )
    return Rescheduled(
        next_run_at=next_run_at,
        early_at=early_at,
        interval_days=days,
        price_used=price or 0.0,
        gap_days=gap,
        rate_shape=known.evidence.shape,
        rate_days=known.evidence.days,
        daily_hours=pack_hours(known.hours) if known.hours else None,
        surprise=known.surprise,
        visits=1,
        changes_seen=int(bool(changed)),
        siblings=siblings,
    )
