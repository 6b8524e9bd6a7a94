"""The time that statements use: the database's in production, a fixed one in tests."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from opilio.errors import Invalid


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
