"""When a failed webhook is retried: soon at first, for three days in all."""

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from opilio.backoff import jittered

_SECOND, _MINUTE, _HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
# The wait after the first attempt, after the second …: 70 hours, 73 to 77 with jitter.
WAITS = (
    5 * _SECOND,
    30 * _SECOND,
    2 * _MINUTE,
    10 * _MINUTE,
    30 * _MINUTE,
    1 * _HOUR,
    2 * _HOUR,
    5 * _HOUR,
    10 * _HOUR,
    14 * _HOUR,
    18 * _HOUR,
    20 * _HOUR,
)
JITTER = 0.1
LONGEST_RETRY_AFTER = timedelta(hours=24)


def next_wait(attempts: int, retry_after: timedelta | None, draw: float) -> timedelta | None:
    """The wait after attempt number `attempts`; None when it was the last. `Retry-After` can only lengthen it."""
    if attempts < 1:
        raise ValueError("attempts are counted from 1")
    if attempts > len(WAITS):
        return None
    wait = jittered(WAITS[attempts - 1], JITTER * draw)
    return max(wait, min(retry_after, LONGEST_RETRY_AFTER)) if retry_after else wait


def parse_retry_after(value: str | None, now: datetime) -> timedelta | None:
    """Seconds or an HTTP date; anything else is ignored."""
    if not value:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return min(timedelta(seconds=int(text[:9])), LONGEST_RETRY_AFTER)
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return min(max(at - now, timedelta(0)), LONGEST_RETRY_AFTER)
