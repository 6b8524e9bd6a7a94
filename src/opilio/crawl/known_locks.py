"""The locks that this process gave, with what it read when it locked the jobs: a submit need not read it again.

A result usually comes to the process that gave the job, and nobody was at the job meanwhile. Whoever changes a job changes the version
of its row, and a trigger does so for whoever changes its policy; `finish_jobs` compares it, and looks at what else may matter by then: a
host that got a gate or strikes, the first value alert. Where anything is not as it was, the submit reads. docs/adr/0033-known-locks.md

What the rule of adaptive policies reads is many values, and many fleets have no such policy. So a pull reads them only for a minute after a
job of one was met. The lock of that first one is not kept here: its submit reads.
"""

import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from opilio.adapters.postgres import Row
from opilio.clock import Clock
from opilio.lock_rules import Claim, holds

_MOST = 20_000
_CLOCK_SECONDS = 5.0
_OVERTAKEN = timedelta(seconds=1)
_ADAPTIVE_SECONDS = 60.0


class KnownLocks:
    """Each is used once. The time is the database's, which every pull tells anew, plus what has passed since."""

    def __init__(self, clock: Clock | None = None, *, most: int = _MOST) -> None:
        self._clock = clock or Clock()
        self._most = most
        self._rows: OrderedDict[int, Row] = (
            OrderedDict()
        )  # by the number of the job's id, which is compared in C
        self._told_at: datetime | None = None
        self._heard = 0.0
        self._adaptive_until = 0.0

    @property
    def adaptive(self) -> bool:
        """Whether pulls shall read what the rule of adaptive policies needs."""
        return time.monotonic() < self._adaptive_until

    def keep(self, rows: Sequence[Row]) -> None:
        """Jobs that were locked now, none of them behind a gate."""
        if not rows:
            return
        fixed = [row for row in rows if row["pool"] is None]
        if len(fixed) < len(rows):
            self._adaptive_until = time.monotonic() + _ADAPTIVE_SECONDS
        known = rows if "rate_days" in rows[0] else fixed
        self._rows |= {row["job_id"].int: row for row in known}
        some = rows[0]
        self._hear(some["locked_until"] - timedelta(seconds=some["lock_ttl_seconds"]))
        while len(self._rows) > self._most:
            self._rows.popitem(last=False)  # the oldest

    def _hear(self, at: datetime) -> None:
        """Answers may overtake each other; the time does not go back for that, only if the database's clock was set."""
        expected = self.now()
        if expected is not None and at < expected < at + _OVERTAKEN:
            at = expected
        self._told_at, self._heard = at, time.monotonic()

    def now(self) -> datetime | None:
        """The database's time; nothing if no pull told it a moment ago."""
        fixed = self._clock.now()
        if fixed is not None:
            return fixed
        passed = time.monotonic() - self._heard
        if self._told_at is None or passed > _CLOCK_SECONDS:
            return None
        return self._told_at + timedelta(seconds=passed)

    def take(self, claims: Sequence[Claim | None], now: datetime) -> list[Row | None]:
        """The jobs that these bots hold, as far as is known; a claim may be left out."""
        return [self._take(claim, now) for claim in claims]

    def _take(self, claim: Claim | None, now: datetime) -> Row | None:
        row = self._rows.pop(claim.job_id.int, None) if claim is not None else None
        if claim is None or row is None:
            return None
        held = holds(claim, "locked", row["locked_by"], row["lock_token"], row["locked_until"], now)
        return row if held else None

    def forget(self, job_ids: Iterable[UUID]) -> None:
        """Locks that are about to change."""
        for job_id in job_ids:
            self._rows.pop(job_id.int, None)
