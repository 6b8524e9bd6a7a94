"""One round of locking: which jobs are found, and which of them are locked for whom."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any

from opilio.adapters.postgres import Row, Session
from opilio.crawl.dead_rows import FirstJob
from opilio.crawl.job import Cause, State, apply
from opilio.crawl.queue_start import Starts, head
from opilio.crawl.sql import QUERIES
from opilio.ids import random_uuids


@dataclass(frozen=True, slots=True)
class LockRequest:
    """What one round of locking asks for."""

    slots: list[str]
    queues: list[str]
    free_queues: list[str]
    free_hosts: dict[int, int]
    fleet_gated: bool
    now: datetime | None
    first: Sequence[FirstJob] = ()
    look: Mapping[str, int] | None = None
    """How many locks each bot may have; jobs are locked only if none has more, and nothing is to be done first."""
    starts: Starts | None = None
    """Where the free queues begin; each at its head if nothing is said."""
    adaptive: bool = True
    """Whether to read what the rule of adaptive policies needs, see known_locks.py."""


@dataclass(frozen=True, slots=True)
class LockRound:
    """What one round brought: locked jobs in the order of their slots, hosts whose jobs must move behind a gate, whether another round may find more."""

    rows: list[Row]
    to_park: set[int]
    more: bool = False
    gated: frozenset[int] = frozenset()
    busy: Row | None = None
    """What was seen, if something is to be done before jobs are locked."""


async def lock_jobs(session: Session, request: LockRequest, allowed: Mapping[int, int]) -> LockRound:
    """Locks the best jobs; of hosts behind gates as many as each allows."""
    found = await _find_jobs(session, request, allowed)
    to_park = {row["host_id"] for row in found if row.get("gated")}
    usable = [row for row in found if not row.get("gated")]
    starts = request.starts.first if request.starts else [head(queue) for queue in request.free_queues]
    more = request.starts is not None and not request.starts.all_at_head
    needed = {"found": bool(usable), "adaptive": request.adaptive}
    rows = await session.fetch(
        QUERIES.without("lock_jobs", *(part for part, is_needed in needed.items() if not is_needed)),
        locked=apply(State.PENDING, Cause.PULL),
        tokens=random_uuids(len(request.slots)),
        slots=len(request.slots),
        **_bots(request.slots),
        free_queues=request.free_queues,
        start_priorities=[start.priority for start in starts],
        start_ids=[start.job_id for start in starts],
        fleet_gated=request.fleet_gated,
        **(_found(usable) if usable else {}),
        look_bots=None if request.look is None else list(request.look),
        look_most=None if request.look is None else list(request.look.values()),
        now=request.now,
    )
    if rows[0]["job_id"] is None:  # no job was locked: one row says why, and which hosts to park
        busy = rows[0] if rows[0]["held"] else None
        return LockRound([], to_park.union(rows[0]["to_park"] or ()), more, busy=busy)
    to_park.update(rows[0]["to_park"] or ())
    rows.sort(
        key=itemgetter("ord")
    )  # in order already, as a rule; the statement would copy every row to sort them
    return LockRound(rows, to_park, more)


def _bots(slots: Sequence[str]) -> dict[str, list[Any]]:
    """Each bot with its first slot, counted from one; many slots in a row are of the same."""
    first = [n for n, bot in enumerate(slots) if n == 0 or bot != slots[n - 1]]
    return {"bots": [slots[n] for n in first], "first_slots": [n + 1 for n in first]}


def _found(rows: Sequence[Row]) -> dict[str, list[Any]]:
    return {
        "found_at": [row["row_at"] for row in rows],
        "found_ids": [row["job_id"] for row in rows],
        "found_priorities": [row["priority"] for row in rows],
    }


async def _find_jobs(session: Session, request: LockRequest, allowed: Mapping[int, int]) -> list[Row]:
    """Jobs that are not simply the next in the common queue: behind gates, in a domain, or where the queue begins late."""
    found: list[Row] = []
    hosts = {**request.free_hosts, **{host_id: most for host_id, most in allowed.items() if most > 0}}
    if hosts:
        found += await session.fetch(
            QUERIES.find_behind_gates,
            host_ids=list(hosts),
            allowed=list(hosts.values()),
            queues=request.queues,
        )
    if request.first:
        found += await session.fetch(
            QUERIES.find_from_first,
            queues=request.queues,
            most=len(request.slots),
            first_queues=[first.queue for first in request.first],
            first_priorities=[first.priority for first in request.first],
            first_ids=[first.job_id for first in request.first],
            fleet_gated=request.fleet_gated,
        )
    return found
