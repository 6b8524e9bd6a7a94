"""The time that statements use: the database's in production, a fixed one in tests."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from opilio.errors import Invalid

_FIRST_YEAR, _LAST_YEAR = 1970, 9000


class Clock:
    """`None`: each statement uses the database's `now()`."""

    def now(self) -> datetime | None:
        return None


class FixedClock(Clock):
    """A clock for tests that is set by hand."""

    def __init__(self, at: datetime | None = None) -> None:
        self.at = at or datetime.now(UTC)

    def now(self) -> datetime | None:
        return self.at


def check_time_zone(field: str, name: str) -> None:
    """Raises `Invalid` unless the name is an IANA time zone."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise Invalid(
            field, f"{name!r} is not a time zone; use an IANA name such as Asia/Ho_Chi_Minh"
        ) from error


def check_moment(field: str, value: datetime) -> None:
    """Refuses a time that cannot be calculated with in UTC: year 1 at +14:00 is before the calendar begins."""
    try:
        year = value.astimezone(UTC).year
    except OverflowError:
        year = 0
    if not _FIRST_YEAR <= year <= _LAST_YEAR:
        raise Invalid(
            field, "must be between the years %(first)s and %(last)s", first=_FIRST_YEAR, last=_LAST_YEAR
        )
