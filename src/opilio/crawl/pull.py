"""Locks jobs for bots: the highest priority first, within what each host allows."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec

from opilio.adapters.postgres import Database, Row, Session
from opilio.clock import Clock
from opilio.contracts.bot_api import PullAnswer, PulledJob, Validators
from opilio.crawl.dead_rows import DeadRows, FirstJob
from opilio.crawl.known_locks import KnownLocks
from opilio.crawl.lock_jobs import LockRequest, LockRound, lock_jobs
from opilio.crawl.politeness import HostState, Limits, allowance, next_visit, polite_at, reopens_at
from opilio.crawl.queue_start import QueueStarts
from opilio.crawl.skipped import SkippedJobs
from opilio.crawl.sql import QUERIES

_ROUNDS = 5  # a round that met closed gates, or jobs of newly limited hosts, is followed by another
_PARK_MORE = 2000  # so many jobs of a newly limited host leave the common queue at once
_EMPTY = msgspec.Raw(b"{}")
SHORTEST_WAIT, _LONGEST_WAIT = 1.0, 60.0
BOT_CAP = 1_000


@dataclass(frozen=True, slots=True)
class Pull:
    """What one bot asks for."""

    bot_id: str
    most: int
    queues: tuple[str, ...]
    domain: str | None = None


class Puller:
    def __init__(
        self,
        database: Database,
        *,
        fleet: Limits | None = None,
        bot_cap: int = BOT_CAP,
        known: KnownLocks | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._db = database
        self._fleet = fleet or Limits()
        self._bot_cap = bot_cap
        self._locking: Counter[str] = Counter()  # jobs that this process is locking now, by bot
        self._near_cap = asyncio.Semaphore(2)  # each holds a connection while it locks jobs on another
        self._clock = clock or Clock()
        self._known = known or KnownLocks(clock)
        self._starts = QueueStarts()
        self._dead_rows = DeadRows(database)
        self._skipped = SkippedJobs(database, self._dead_rows)

    def look_again(self) -> None:
        """Jobs may have come: the next pull looks at the whole queue."""
        self._starts.forget()

    async def pull(self, pull: Pull) -> PullAnswer:
        return (await self.pull_many([pull]))[0]

    async def pull_many(self, pulls: Sequence[Pull]) -> list[PullAnswer]:
        """Pulls of the same queues and domain in one statement; the first in the list gets the better jobs."""
        queues, domain = pulls[0].queues, pulls[0].domain
        rows = await self._lock_within_cap(pulls, queues, domain)
        bots = [pull.bot_id for pull in pulls]
        skipped = await self._skipped.count(bots, queues, domain, self._clock.now())
        retry_after = None if any(rows) else await self._retry_after(queues)
        return _share_out(pulls, rows, skipped, retry_after)

    async def _lock_within_cap(
        self, pulls: Sequence[Pull], queues: Sequence[str], domain: str | None
    ) -> list[list[Row]]:
        """Jobs for each pull; no bot gets more than its cap of locked jobs."""
        wanted: Counter[str] = Counter()
        for pull in pulls:
            wanted[pull.bot_id] += pull.most
        self._locking += wanted
        try:
            if domain is None and not await self._dead_rows.first_jobs(queues):
                at_once = await self._lock_at_once(pulls, wanted, queues)
                if isinstance(at_once, list):
                    return at_once
                any_open, held = at_once
            else:
                known = await self._dead_rows.count_locks(wanted)
                any_open, counted = await self._look(queues, [] if known is not None else list(wanted))
                held = known if known is not None else dict(zip(wanted, counted, strict=True))
            # Far below the cap pulls need not wait for each other, whatever other processes lock meanwhile.
            near = sorted(bot for bot in wanted if held[bot] > self._far_from_cap(bot))
            if not near:
                return await self._lock_shares(pulls, held, queues, domain, any_open=any_open)
            async with self._near_cap, self._db.transaction() as session:
                for bot_id in near:
                    await session.execute(QUERIES.take_bot, bot_id=bot_id)
                held |= await self._count_locks(session, near)
                return await self._lock_shares(pulls, held, queues, domain)
        finally:
            self._locking -= wanted

    def _far_from_cap(self, bot_id: str) -> int:
        """So many locks a bot may have beside those that it is being given."""
        return self._bot_cap // 8 - self._locking[bot_id]

    async def _lock_at_once(
        self, pulls: Sequence[Pull], wanted: Mapping[str, int], queues: Sequence[str]
    ) -> list[list[Row]] | tuple[bool, dict[str, int]]:
        """Jobs for each pull by one statement; what it saw if anything else is to be done first."""
        slots = [pull.bot_id for pull in pulls for _ in range(pull.most)]
        look = {bot_id: self._far_from_cap(bot_id) for bot_id in wanted}
        starts = self._starts.begin(queues)
        request = LockRequest(
            slots,
            list(queues),
            list(queues),
            {},
            self._fleet.any,
            self._clock.now(),
            look=look,
            starts=starts,
            adaptive=self._known.adaptive,
        )
        result = await self._lock_freely(request)
        if result.busy is not None:
            any_open = result.busy["any_open"]
            if result.busy["any_ripe"]:
                any_open |= await self._ready_jobs(request.now)
            return any_open, dict(zip(wanted, result.busy["held"], strict=True))
        self._starts.passed(starts, result.rows)
        rows = await self._lock(slots, queues, None, any_open=None, begun=result)
        taken = itertools.count()
        return [[rows[slot] for slot in itertools.islice(taken, pull.most) if slot in rows] for pull in pulls]

    async def _count_locks(self, session: Session, bots: Iterable[str]) -> dict[str, int]:
        rows = await session.fetch(QUERIES.count_locks, bots=list(bots), cap=self._bot_cap)
        return {row["bot_id"]: row["held"] for row in rows}

    async def _lock_shares(
        self,
        pulls: Sequence[Pull],
        held: dict[str, int],
        queues: Sequence[str],
        domain: str | None,
        *,
        any_open: bool | None = None,
    ) -> list[list[Row]]:
        slots: list[str] = []
        shares: list[range] = []
        for pull in pulls:
            share = max(0, min(pull.most, self._bot_cap - held[pull.bot_id]))
            held[pull.bot_id] += share
            shares.append(range(len(slots), len(slots) + share))
            slots += [pull.bot_id] * share
        rows = await self._lock(slots, queues, domain, any_open=any_open) if slots else {}
        self._dead_rows.gave((slots[slot], row["job_id"]) for slot, row in rows.items())
        return [[rows[slot] for slot in share if slot in rows] for share in shares]

    async def _lock(
        self,
        slots: list[str],
        queues: Sequence[str],
        domain: str | None,
        *,
        any_open: bool | None,
        begun: LockRound | None = None,
    ) -> dict[int, Row]:
        """Jobs by the slot that they were locked for; a pull has one slot for each job that it wants.

        `begun` is what the first round brought, if it is over.
        """
        found: dict[int, Row] = {}
        first = await self._dead_rows.first_jobs(queues) if domain is None else []
        for _ in range(_ROUNDS):
            empty = [slot for slot in range(len(slots)) if slot not in found]
            if begun is not None:
                result, begun = begun, None
            else:
                if any_open is None:
                    any_open, _ = await self._look(queues, [])
                wanted = [slots[slot] for slot in empty]
                result = await self._lock_round(wanted, queues, domain, first, any_open=any_open)
            found |= {empty[row["ord"] - 1]: row for row in result.rows}
            for host_id in result.to_park:
                await self._park(host_id)
            if len(found) == len(slots) or not (result.to_park or result.more or first):
                break
            first, any_open = [], None  # before a pull gets less than it wants, it looks everywhere
        return found

    async def _park(self, host_id: int) -> None:
        now = self._clock.now()
        await self._db.transact(
            lambda session: session.value(QUERIES.park_jobs, host_id=host_id, most=_PARK_MORE, now=now)
        )

    async def _look(self, queues: Sequence[str], bots: list[str]) -> tuple[bool, list[int]]:
        """Whether any gate is open now, and the locks of each bot. Jobs whose time has come are readied on the way."""
        now = self._clock.now()
        (row,) = await self._db.fetch(
            QUERIES.look_before_pull, hot=True, queues=list(queues), bots=bots, cap=self._bot_cap, now=now
        )
        any_open: bool = row["any_open"]
        if row["any_ripe"]:
            any_open |= await self._ready_jobs(now)
        return any_open, row["held"]

    async def _ready_jobs(self, now: datetime | None) -> bool:
        """Readies jobs whose time has come; whether any of them wait behind a gate, which then is open."""
        any_open: bool = await self._db.transact(
            lambda session: session.value(QUERIES.ready_jobs, fleet_gated=self._fleet.any, now=now),
            hot=True,
            autocommit=True,
        )
        self.look_again()
        return any_open

    async def _lock_round(
        self,
        slots: list[str],
        queues: Sequence[str],
        domain: str | None,
        first: Sequence[FirstJob],
        *,
        any_open: bool,
    ) -> LockRound:
        now = self._clock.now()
        if domain is not None:
            return await self._lock_in_domain(slots, queues, domain, now)
        free_queues = [] if first else list(queues)
        request = LockRequest(slots, list(queues), free_queues, {}, self._fleet.any, now, first)
        if not any_open:
            found = await self._lock_freely(request)
        else:
            found = self._keep(
                await self._db.transact(lambda session: self._lock_behind_gates(session, request), hot=True)
            )
        self._dead_rows.passed(row for row in found.rows if row["host_id"] not in found.gated)
        return found

    async def _lock_in_domain(
        self, slots: list[str], queues: Sequence[str], domain: str, now: datetime | None
    ) -> LockRound:
        hosts = await self._db.fetch(
            QUERIES.hosts_in_domain, hot=True, domain=domain, queues=list(queues), fleet_gated=self._fleet.any
        )
        free = {host["host_id"]: len(slots) for host in hosts if not host["gated"]}
        gated = [host["host_id"] for host in hosts if host["gated"]]
        request = LockRequest(slots, list(queues), [], free, self._fleet.any, now)

        async def work(session: Session) -> LockRound:
            taken = await session.fetch(QUERIES.take_hosts, host_ids=gated) if gated else []
            return await self._lock_politely(session, request, taken, more=False)

        return self._keep(await self._db.transact(work, hot=True))

    async def _lock_freely(self, request: LockRequest) -> LockRound:
        return self._keep(
            await self._db.transact(
                lambda session: lock_jobs(session, request, {}),
                hot=True,
                autocommit=not request.first,
            )
        )

    def _keep(self, found: LockRound) -> LockRound:
        gated = found.gated
        self._known.keep([row for row in found.rows if row["host_id"] not in gated] if gated else found.rows)
        return found

    async def _lock_behind_gates(self, session: Session, request: LockRequest) -> LockRound:
        most = len(request.slots)
        taken = await session.fetch(QUERIES.take_gates, queues=request.queues, most=most, now=request.now)
        return await self._lock_politely(session, request, taken, more=len(taken) == most)

    async def _lock_politely(
        self, session: Session, request: LockRequest, taken: Sequence[Row], *, more: bool
    ) -> LockRound:
        """The transaction has locked the hosts, so the counts stay true until the jobs are locked."""
        counted = await self._count(session, request, {row["host_id"]: row for row in taken})
        allowed = {host.host_id: allowance(host.state, host.at, len(request.slots)) for host in counted}
        found = await lock_jobs(session, request, allowed)
        if counted:
            locked = Counter(row["host_id"] for row in found.rows)
            await session.execute(QUERIES.close_gates, **_closing(counted, locked))
        return replace(found, more=more, gated=frozenset(allowed))

    async def _count(
        self, session: Session, request: LockRequest, hosts: Mapping[int, Row]
    ) -> list["CountedHost"]:
        if not hosts:
            return []
        rows = await session.fetch(QUERIES.count_held, host_ids=list(hosts), now=request.now)
        return [self._counted(hosts[row["host_id"]], row) for row in rows]

    def _counted(self, host: Row, count: Row) -> "CountedHost":
        own = Limits(host["max_concurrent"], host["min_delay_seconds"])
        return CountedHost(
            host_id=host["host_id"],
            state=HostState(own.over(self._fleet), host["next_at"], host["cooling_until"], count["held"]),
            gated=own.any or host["cooling_until"] > count["at"],
            at=count["at"],
            gates=list(zip(count["gate_queues"], count["gate_versions"], strict=True)),
        )

    async def _retry_after(self, queues: Sequence[str]) -> float:
        seconds = await self._db.value(QUERIES.next_chance, queues=list(queues), now=self._clock.now())
        if seconds is None:
            return _LONGEST_WAIT
        return round(min(_LONGEST_WAIT, max(SHORTEST_WAIT, float(seconds))), 3)


@dataclass(frozen=True, slots=True)
class CountedHost:
    """A host that this pull locked, with the jobs locked on it."""

    host_id: int
    state: HostState
    gated: bool
    at: datetime
    gates: list[tuple[str, int]]


def _closing(hosts: Sequence[CountedHost], locked: Mapping[int, int]) -> dict[str, list[Any]]:
    facts = [(host.state, host.at, locked.get(host.host_id, 0)) for host in hosts]
    gates = [(host.host_id, queue, version) for host in hosts for queue, version in host.gates]
    return {
        "host_ids": [host.host_id for host in hosts],
        "next_at": [next_visit(*fact) for fact in facts],
        "open_at": [reopens_at(*fact) for fact in facts],
        "ready_at": [polite_at(*fact) for fact in facts],
        "gated": [host.gated for host in hosts],
        "gate_hosts": [host_id for host_id, _, _ in gates],
        "gate_queues": [queue for _, queue, _ in gates],
        "gate_versions": [version for _, _, version in gates],
    }


def _share_out(
    pulls: Sequence[Pull],
    rows: Sequence[Sequence[Row]],
    skipped: Mapping[str, int],
    retry_after: float | None,
) -> list[PullAnswer]:
    answers = []
    for pull, found in zip(pulls, rows, strict=True):
        own = [_pulled(row) for row in found]
        wait = None if own else (retry_after if retry_after is not None else SHORTEST_WAIT)
        answers.append(PullAnswer(jobs=own, count=len(own), skipped=skipped[pull.bot_id], retry_after=wait))
    return answers


def _pulled(row: Row) -> PulledJob:
    return PulledJob(
        job_id=row["job_id"],
        url=row["url"],
        priority=row["priority"],
        queue=row["queue"],
        crawl_config=_json(row["crawl_config"]),
        rule_set=_json(row["rule_set"]),
        max_retries=row["max_retries"],
        retry_count=row["retry_count"],
        timeout_seconds=row["lock_ttl_seconds"],
        locked_until=row["locked_until"],
        lock_token=row["lock_token"],
        validators=_validators(row),
    )


def _json(text: str | None) -> Any:
    """Most policies have an empty object, which is not sent."""
    return _EMPTY if text is None else msgspec.Raw(text)


def _validators(row: Row) -> Validators | None:
    if row["etag"] is None and row["last_modified"] is None:
        return None
    return Validators(etag=row["etag"], last_modified=row["last_modified"])
