"""The time that statements use: the database's in production, a fixed one in tests."""

from datetime import UTC, datetime


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
