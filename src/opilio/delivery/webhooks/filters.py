"""Event filters of an endpoint: `crawl.job.completed`, `crawl.job.*`, `*`."""

import re
from collections.abc import Sequence

from opilio.errors import Invalid

_SHAPE = re.compile(r"[a-z0-9_*]+(\.[a-z0-9_*]+)*")


def checked(patterns: Sequence[str]) -> list[str]:
    """The patterns without repetitions; refuses one that can never match."""
    if not patterns:
        raise Invalid("events", "name at least one event type, or * for all")
    for pattern in patterns:
        if not _SHAPE.fullmatch(pattern) or len(pattern) > 200:
            raise Invalid(
                "events",
                "%(pattern)s is not an event type or a pattern like crawl.job.*",
                pattern=repr(pattern),
            )
    return list(dict.fromkeys(patterns))


def to_regex(patterns: Sequence[str]) -> str:
    """One expression for all patterns; `*` stands for any characters. PostgreSQL and Python read it alike."""
    return f"^({'|'.join(_as_regex(pattern) for pattern in patterns)})$"


def _as_regex(pattern: str) -> str:
    return pattern.replace(".", r"\.").replace("*", ".*")
