"""Which posts a question is about, and whether the digest of whole days can answer it."""

from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any
from zoneinfo import ZoneInfo


@dataclass(frozen=True, slots=True)
class PostFilter:
    """Which posts are selected; None is no filter. `since` is included, `until` is not."""

    platform: str | None = None
    keyword: str | None = None
    sentiment: str | None = None
    intent: str | None = None
    risk: str | None = None
    role: str | None = None
    language: str | None = None
    aspect: str | None = None
    q: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def params(self) -> dict[str, Any]:
        """The parameters that every statement over posts takes."""
        names = ("platform", "keyword", "sentiment", "intent", "risk", "role", "language", "aspect", "q")
        wanted = {name: value for name in names if (value := getattr(self, name)) is not None}
        return {"wanted": wanted, "since": self.since, "until": self.until}


@dataclass(frozen=True, slots=True)
class Days:
    """Whole days of a project's zone: from `first` up to and without `last`."""

    first: date | None
    last: date | None

    @classmethod
    def covering(cls, wanted: PostFilter, zone: ZoneInfo) -> "Days | None":
        """The days that the filter asks for, where it asks for whole days and nothing else."""
        if wanted.params["wanted"]:
            return None
        bounds = [moment and moment.astimezone(zone) for moment in (wanted.since, wanted.until)]
        if any(bound and bound.time() != time() for bound in bounds):
            return None
        first, last = (bound.date() if bound else None for bound in bounds)
        return cls(first, last)

    @property
    def params(self) -> dict[str, Any]:
        return {"first": self.first, "last": self.last}
