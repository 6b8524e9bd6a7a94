"""The protocol of both state stores; one suite tests both.

The counters of a project are kept in PostgreSQL, in the transaction that records its results. A store serves them:
PostgreSQL itself, or Redis as a cache that is rebuilt from it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from opilio.contracts.projects import ProjectState


@dataclass(frozen=True, slots=True)
class VersionedState:
    """The state of a project; the version grows with every change."""

    project_id: str
    version: int
    state: ProjectState


class StateStore(Protocol):
    async def read(self, project_id: str) -> ProjectState | None: ...

    async def publish(self, states: Sequence[VersionedState]) -> None:
        """Makes committed states readable; an older version changes nothing. Never raises: `heal` repairs."""
        ...

    async def versions(self, project_ids: Sequence[str]) -> Mapping[str, int]:
        """The versions that readers see; a project without a state is left out."""
        ...

    async def close(self) -> None: ...
