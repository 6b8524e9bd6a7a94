"""Time as an argument: the database's clock rules in production, tests set their own."""

from datetime import UTC, datetime


class Clock:
    """Asks for no time of its own: `None` makes each statement use the database's `now()`."""

    def now(self) -> datetime | None:
        return None


class FixedClock(Clock):
    """A clock that moves only when told to."""

    def __init__(self, at: datetime | None = None) -> None:
        self.at = at or datetime.now(UTC)

    def now(self) -> datetime | None:
        return self.at
