"""Which events an endpoint wants: `crawl.job.completed`, `crawl.job.*`, `*`."""

import re
from collections.abc import Sequence

from opilio.errors import Invalid

_SHAPE = re.compile(r"[a-z0-9_*]+(\.[a-z0-9_*]+)*")


def checked(patterns: Sequence[str]) -> list[str]:
    """The patterns without repetition; one that can never match anything is refused."""
    if not patterns:
        raise Invalid("events", "name at least one event, or * for all of them")
    for pattern in patterns:
        if not _SHAPE.fullmatch(pattern) or len(pattern) > 200:
            raise Invalid("events", f"{pattern!r} is no event type or pattern like crawl.job.*")
    return list(dict.fromkeys(patterns))


def to_regex(patterns: Sequence[str]) -> str:
    """One expression for all patterns; `*` stands for any characters. PostgreSQL and Python read it alike."""
    return f"^({'|'.join(_as_regex(pattern) for pattern in patterns)})$"


def _as_regex(pattern: str) -> str:
    return pattern.replace(".", r"\.").replace("*", ".*")


def matches(patterns: Sequence[str], event_type: str) -> bool:
    return re.match(to_regex(patterns), event_type) is not None
