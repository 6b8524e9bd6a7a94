"""Hands jobs to bots: the best first, within what each host allows. Many pulls become one statement."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from opilio.adapters.postgres import Database, Row, Session
from opilio.clock import Clock
from opilio.coalesce import Coalescer
from opilio.contracts.bot_api import PullAnswer, PulledJob
from opilio.crawl.lock_end import QUERIES
from opilio.crawl.politeness import HostState, Limits, allowance, next_visit, polite_at, reopens_at

_ROUNDS = 5  # a look that met closed gates, or jobs of newly limited hosts, is followed by another
_PARK_MORE = 2000  # so many jobs of a newly limited host leave the common queue at once
_SHORTEST_WAIT, _LONGEST_WAIT = 1.0, 60.0
_MOST_SKIPPED = 100
_SAMPLE = 200


@dataclass(frozen=True, slots=True)
class Pull:
    """One bot's wish."""

    bot_id: str
    most: int
    queues: tuple[str, ...]
    domain: str | None = None


@dataclass(slots=True)
class Signal:
    """Wakes everybody who waits for work; waiting costs nothing and misses nothing."""

    _event: asyncio.Event

    @classmethod
    def new(cls) -> "Signal":
        return cls(asyncio.Event())

    def wake(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    def next(self) -> asyncio.Event:
        """The event to wait on; taken before looking, so that what comes between is not missed."""
        return self._event


class Leasing:
    """The pull."""

    def __init__(
        self, database: Database, *, fleet: Limits | None = None, clock: Clock | None = None
    ) -> None:
        self._db = database
        self._fleet = fleet or Limits()
        self._clock = clock or Clock()
        self._lines: dict[tuple[tuple[str, ...], str | None], Coalescer[Pull, PullAnswer]] = {}
        self.signal = Signal.new()

    async def pull(self, pull: Pull, *, wait_seconds: float = 0) -> PullAnswer:
        """Answers with jobs; with none, waits up to `wait_seconds` for some to appear."""
        deadline = time.monotonic() + wait_seconds
        while True:
            awakened = self.signal.next()
            answer = await self._line(pull).ask(pull)
            left = deadline - time.monotonic()
            if answer.count or left <= 0:
                return answer
            pause = min(left, answer.retry_after or _SHORTEST_WAIT)
            try:
                await asyncio.wait_for(awakened.wait(), pause)
            except TimeoutError:
                continue

    def _line(self, pull: Pull) -> Coalescer[Pull, PullAnswer]:
        """Pulls that look for the same kind of job stand in one line."""
        key = (pull.queues, pull.domain)
        line = self._lines.get(key)
        if line is None:
            if len(self._lines) > 1000:  # domains are the bots' to invent
                self._lines.clear()
            line = self._lines[key] = Coalescer(self.pull_many, most=200, workers=2, weight=lambda p: p.most)
        return line

    async def pull_many(self, pulls: Sequence[Pull]) -> list[PullAnswer]:
        """Pulls of the same queues and domain; who comes first gets the better jobs."""
        queues, domain = pulls[0].queues, pulls[0].domain
        seats = [pull.bot_id for pull in pulls for _ in range(pull.most)]
        rows = await self._lock(seats, queues, domain)
        skipped = await self._skipped([pull.bot_id for pull in pulls], queues, domain)
        retry_after = None if rows else await self._retry_after(queues)
        return _share_out(pulls, rows, skipped, retry_after)

    async def _lock(self, seats: list[str], queues: Sequence[str], domain: str | None) -> dict[int, Row]:
        """Jobs by the seat that they were locked for."""
        found: dict[int, Row] = {}
        for _ in range(_ROUNDS):
            empty = [seat for seat in range(len(seats)) if seat not in found]
            look = await self._look([seats[seat] for seat in empty], queues, domain)
            found |= {empty[row["ord"] - 1]: row for row in look.rows}
            for host_id in look.parked:
                await self._db.value(
                    QUERIES.park_jobs, host_id=host_id, most=_PARK_MORE, now=self._clock.now()
                )
            if len(found) == len(seats) or not (look.parked or look.more):
                break
        return found

    async def _look(self, seats: list[str], queues: Sequence[str], domain: str | None) -> "Look":
        now = self._clock.now()
        opened = await self._db.fetch(
            QUERIES.open_gates, hot=True, queues=list(queues), fleet_gated=self._fleet.any, now=now
        )
        if domain is not None:
            return await self._look_in_domain(seats, queues, domain, now)
        wish = Wish(seats, list(queues), list(queues), {}, self._fleet.any, now)
        if not opened[0]["any_open"]:
            return await self._lock_freely(wish)
        return await self._db.transact(lambda session: self._lock_behind_gates(session, wish), hot=True)

    async def _look_in_domain(
        self, seats: list[str], queues: Sequence[str], domain: str, now: datetime | None
    ) -> "Look":
        hosts = await self._db.fetch(
            QUERIES.hosts_in_domain, hot=True, domain=domain, queues=list(queues), fleet_gated=self._fleet.any
        )
        free = {host["host_id"]: len(seats) for host in hosts if not host["gated"]}
        gated = [host["host_id"] for host in hosts if host["gated"]]
        wish = Wish(seats, list(queues), [], free, self._fleet.any, now)
        if not gated:
            return await self._lock_freely(wish)

        async def work(session: Session) -> Look:
            taken = await session.fetch(QUERIES.take_hosts, host_ids=gated)
            return await self._lock_politely(session, wish, taken, more=False)

        return await self._db.transact(work, hot=True)

    async def _lock_freely(self, wish: "Wish") -> "Look":
        async with self._db.session(hot=True) as session:
            return _looked(await _lock_jobs(session, wish, {}), more=False)

    async def _lock_behind_gates(self, session: Session, wish: "Wish") -> "Look":
        most = len(wish.seats)
        taken = await session.fetch(QUERIES.take_gates, queues=wish.queues, most=most, now=wish.now)
        return await self._lock_politely(session, wish, taken, more=len(taken) == most)

    async def _lock_politely(
        self, session: Session, wish: "Wish", taken: Sequence[Row], *, more: bool
    ) -> "Look":
        """The hosts are ours, so what is counted now stays true until the jobs are locked."""
        visits = await self._count(session, wish, {row["host_id"]: row for row in taken})
        allowed = {visit.host_id: allowance(visit.host, visit.at, len(wish.seats)) for visit in visits}
        rows = await _lock_jobs(session, wish, allowed)
        if visits:
            went = Counter(row["host_id"] for row in rows)
            await session.execute(QUERIES.close_gates, **_closing(visits, went))
        return _looked(rows, more=more)

    async def _count(self, session: Session, wish: "Wish", hosts: Mapping[int, Row]) -> list["Visit"]:
        if not hosts:
            return []
        rows = await session.fetch(QUERIES.count_held, host_ids=list(hosts), now=wish.now)
        return [self._visit(hosts[row["host_id"]], row) for row in rows]

    def _visit(self, host: Row, seen: Row) -> "Visit":
        own = Limits(host["max_concurrent"], host["min_delay_seconds"])
        return Visit(
            host_id=host["host_id"],
            host=HostState(own.over(self._fleet), host["next_at"], host["cooling_until"], seen["held"]),
            gated=own.any or host["cooling_until"] > seen["at"],
            at=seen["at"],
            gates=list(zip(seen["gate_queues"], seen["gate_versions"], strict=True)),
        )

    async def _skipped(
        self, bots: Iterable[str], queues: Sequence[str], domain: str | None
    ) -> dict[str, int]:
        """For each bot, matching jobs that other bots or politeness hold at this moment, up to a bound."""
        host_ids = None
        if domain is not None:
            host_ids = [row["host_id"] for row in await self._db.fetch(QUERIES.domain_hosts, domain=domain)]
        where = {"queues": list(queues), "host_ids": host_ids}
        rows = await self._db.fetch(
            QUERIES.held_elsewhere, hot=True, most=_SAMPLE, now=self._clock.now(), **where
        )
        jobs = {row["bot_id"]: row["jobs"] for row in rows}
        polite = jobs.pop(None, 0)
        held = sum(jobs.values())
        skipped = {bot: polite + held - jobs.get(bot, 0) for bot in bots}
        if held >= _SAMPLE:  # its own locks may have filled the sample
            for bot in [bot for bot, count in skipped.items() if count < _MOST_SKIPPED]:
                skipped[bot] = polite + await self._held_by_others(bot, where)
        return {bot: min(_MOST_SKIPPED, count) for bot, count in skipped.items()}

    async def _held_by_others(self, bot_id: str, where: Mapping[str, Any]) -> int:
        rows = await self._db.fetch(QUERIES.held_by_others, hot=True, bot_id=bot_id, **where)
        return int(rows[0][0])

    async def _retry_after(self, queues: Sequence[str]) -> float:
        seconds = await self._db.value(QUERIES.next_chance, queues=list(queues), now=self._clock.now())
        if seconds is None:
            return _LONGEST_WAIT
        return round(min(_LONGEST_WAIT, max(_SHORTEST_WAIT, float(seconds))), 3)


@dataclass(frozen=True, slots=True)
class Wish:
    """What one look at the queue is for."""

    seats: list[str]
    queues: list[str]
    free_queues: list[str]
    free_hosts: dict[int, int]
    fleet_gated: bool
    now: datetime | None


@dataclass(frozen=True, slots=True)
class Look:
    """What one look brought: locked jobs, hosts whose jobs must move behind a gate, and whether more gates may be open."""

    rows: list[Row]
    parked: list[int]
    more: bool


@dataclass(frozen=True, slots=True)
class Visit:
    """A host that this pull holds, as it was counted."""

    host_id: int
    host: HostState
    gated: bool
    at: datetime
    gates: list[tuple[str, int]]


def _looked(rows: Sequence[Row], *, more: bool) -> Look:
    parked = rows[0]["parked"] if rows else None
    return Look([row for row in rows if row["job_id"] is not None], parked or [], more)


async def _lock_jobs(session: Session, wish: Wish, allowed: Mapping[int, int]) -> list[Row]:
    hosts = {**wish.free_hosts, **{i: most for i, most in allowed.items() if most > 0}}
    return await session.fetch(
        QUERIES.lock_jobs,
        bots=wish.seats,
        queues=wish.queues,
        free_queues=wish.free_queues,
        fleet_gated=wish.fleet_gated,
        host_ids=list(hosts),
        allowed=list(hosts.values()),
        now=wish.now,
    )


def _closing(visits: Sequence[Visit], went: Mapping[int, int]) -> dict[str, list[Any]]:
    facts = [(visit.host, visit.at, went.get(visit.host_id, 0)) for visit in visits]
    gates = [(visit.host_id, queue, version) for visit in visits for queue, version in visit.gates]
    return {
        "host_ids": [visit.host_id for visit in visits],
        "next_at": [next_visit(*fact) for fact in facts],
        "open_at": [reopens_at(*fact) for fact in facts],
        "ready_at": [polite_at(*fact) for fact in facts],
        "gated": [visit.gated for visit in visits],
        "gate_hosts": [host_id for host_id, _, _ in gates],
        "gate_queues": [queue for _, queue, _ in gates],
        "gate_versions": [version for _, _, version in gates],
    }


def _share_out(
    pulls: Iterable[Pull], rows: Mapping[int, Row], skipped: Mapping[str, int], retry_after: float | None
) -> list[PullAnswer]:
    """Each job was locked for the bot of its seat; seats were given in the order of the pulls."""
    answers, first = [], 0
    for pull in pulls:
        own = [_pulled(rows[seat]) for seat in range(first, first + pull.most) if seat in rows]
        first += pull.most
        wait = None if own else (retry_after if retry_after is not None else _SHORTEST_WAIT)
        answers.append(PullAnswer(jobs=own, count=len(own), skipped=skipped[pull.bot_id], retry_after=wait))
    return answers


def _pulled(row: Row) -> PulledJob:
    config: Any = msgspec.Raw(row["crawl_config"])
    return PulledJob(
        job_id=row["job_id"],
        url=row["url"],
        priority=row["priority"],
        queue=row["queue"],
        crawl_config=config,
        rule_set=msgspec.Raw(row["rule_set"]),
        max_retries=row["max_retries"],
        retry_count=row["retry_count"],
        timeout_seconds=row["lock_ttl_seconds"],
        locked_until=row["locked_until"],
        lock_token=row["lock_token"],
    )
