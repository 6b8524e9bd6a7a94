"""A job's story: how long it waited, ran and waited for a retry."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import msgspec

from opilio.contracts.management import TimelineRow

Kind = Literal["waiting", "running", "retry"]


class Stretch(msgspec.Struct, kw_only=True, frozen=True):
    """A time in which the job was in one state; `share` and `offset` are parts of the whole, from 0 to 1."""

    kind: Kind
    start: datetime
    end: datetime | None
    seconds: float
    offset: float
    share: float
    by: str
    ended_by: str


def story(timeline: Sequence[TimelineRow], now: datetime) -> list[Stretch]:
    """From the transitions of one job, oldest first; the last stretch of an active job lasts until now."""
    stretches: list[Stretch] = []
    if not timeline:
        return stretches
    over = timeline[-1].to not in ("pending", "locked")
    begin, finish = timeline[0].at, timeline[-1].at if over else now
    whole = max((finish - begin).total_seconds(), 0.001)
    ran = False
    for row, following in zip(timeline, [*timeline[1:], None], strict=True):
        if row.to not in ("pending", "locked"):
            continue
        end = following.at if following else now
        seconds = max((end - row.at).total_seconds(), 0.0)
        kind: Kind = "running" if row.to == "locked" else "retry" if ran else "waiting"
        ran = ran or kind == "running"
        stretches.append(
            Stretch(
                kind=kind,
                start=row.at,
                end=following.at if following else None,
                seconds=seconds,
                offset=min((row.at - begin).total_seconds() / whole, 1.0),
                share=min(seconds / whole, 1.0),
                by=row.by,
                ended_by=following.reason if following else "",
            )
        )
    return stretches
