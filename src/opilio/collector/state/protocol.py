"""Project state: what both of its stores promise. Redis in production, PostgreSQL embedded; one suite tests both.

A tally is counted once by its identity, in one atomic step with the counters, the legacy fields and the one-time
move to DONE. A project that changed is remembered as changed in the same step, until it is told.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from opilio.collector.tally import Tally
from opilio.contracts.projects import ProjectState


class Counted(StrEnum):
    """What became of a tally."""

    COUNTED = "counted"
    REPEATED = "repeated"
    UNKNOWN = "unknown"  # there is no such project


@dataclass(frozen=True, slots=True)
class Change:
    """A project whose state is newer than what was told of it; the version grows with every count."""

    project_id: str
    version: int
    state: ProjectState


class StateStore(Protocol):
    async def open(self, project_id: str, state: ProjectState) -> None:
        """Makes the state of a new project; one that is there already stays as it is."""
        ...

    async def count(self, tallies: Sequence[Tally]) -> list[Counted]:
        """Adds each tally once; answers in the order given."""
        ...

    async def read(self, project_id: str) -> ProjectState | None: ...

    async def changes(self, most: int) -> list[Change]:
        """Projects that changed since they were told, in no order."""
        ...

    async def told(self, changes: Sequence[Change]) -> None:
        """These versions were told: what changed meanwhile stays changed."""
        ...

    async def forget(self, project_ids: Sequence[str]) -> None:
        """Projects done so long ago that no result of theirs can still be under way: what was counted may go."""
        ...

    async def close(self) -> None: ...
