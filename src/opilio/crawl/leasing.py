"""Hands jobs to bots: the best first, within what each host allows. Many pulls become one statement."""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

import msgspec

from opilio.adapters.postgres import Database, Row, Session
from opilio.clock import Clock
from opilio.coalesce import Coalescer
from opilio.contracts.bot_api import PullAnswer, PulledJob
from opilio.crawl.ledger import QUERIES
from opilio.crawl.politeness import HostState, Limits, allowance, next_visit, reopens_at

_ROUNDS = 5  # a round that found only jobs of newly limited hosts parks them and looks again
_SHORTEST_WAIT, _LONGEST_WAIT = 1.0, 60.0
_MOST_SKIPPED = 100


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
            line = self._lines[key] = Coalescer(self.pull_many, most=400, workers=2, weight=lambda p: p.most)
        return line

    async def pull_many(self, pulls: Sequence[Pull]) -> list[PullAnswer]:
        """Pulls of the same queues and domain; who comes first gets the better jobs."""
        queues, domain = pulls[0].queues, pulls[0].domain
        seats = [pull.bot_id for pull in pulls for _ in range(pull.most)]
        rows = await self._lock(seats, queues, domain)
        skipped = await self._skipped(queues, domain)
        retry_after = None if rows else await self._retry_after(queues)
        return _share_out(pulls, rows, skipped, retry_after)

    async def _lock(self, seats: list[str], queues: Sequence[str], domain: str | None) -> list[Row]:
        found: list[Row] = []
        for _ in range(_ROUNDS):
            rows = await self._lock_once(seats[len(found) :], queues, domain)
            found += [row for row in rows if row["job_id"] is not None]
            parked = rows[0]["parked"] if rows else 0
            if len(found) == len(seats) or not parked:
                break
        return found

    async def _lock_once(self, seats: list[str], queues: Sequence[str], domain: str | None) -> list[Row]:
        now = self._clock.now()
        opened = await self._db.fetch(
            QUERIES.open_gates,
            hot=True,
            queues=list(queues),
            most=len(seats),
            fleet_gated=self._fleet.any,
            now=now,
        )
        if domain is None:
            gated, free = [row["host_id"] for row in opened], []
            free_queues = [] if self._fleet.any else list(queues)
        else:
            hosts = await self._db.fetch(
                QUERIES.hosts_in_domain,
                hot=True,
                domain=domain,
                queues=list(queues),
                fleet_gated=self._fleet.any,
            )
            gated, free = (
                [h["host_id"] for h in hosts if h["gated"]],
                [h["host_id"] for h in hosts if not h["gated"]],
            )
            free_queues = []
        wish = Wish(seats, list(queues), free_queues, dict.fromkeys(free, len(seats)), now)
        if not gated:
            async with self._db.session(hot=True) as session:
                return await _lock_jobs(session, wish, {})
        return await self._db.transact(lambda session: self._lock_politely(session, wish, gated), hot=True)

    async def _lock_politely(self, session: Session, wish: "Wish", host_ids: Sequence[int]) -> list[Row]:
        """Takes the hosts first, then looks: what is counted under the host's lock stays true."""
        hosts = await self._take_hosts(session, wish, host_ids)
        now = next((at for _, at in hosts.values()), None)
        if now is None:
            return await _lock_jobs(session, wish, {})
        allowed = {i: allowance(host, at, len(wish.seats)) for i, (host, at) in hosts.items()}
        rows = await _lock_jobs(session, wish, allowed)
        taken = dict.fromkeys(hosts, 0)
        for row in rows:
            if row["host_id"] in taken:
                taken[row["host_id"]] += 1
        await session.execute(
            QUERIES.close_gates,
            host_ids=list(hosts),
            next_at=[next_visit(host, at, taken[i]) for i, (host, at) in hosts.items()],
            open_at=[reopens_at(host, at, taken[i]) for i, (host, at) in hosts.items()],
        )
        return rows

    async def _take_hosts(
        self, session: Session, wish: "Wish", host_ids: Sequence[int]
    ) -> dict[int, tuple[HostState, datetime]]:
        taken = {
            row["host_id"]: row for row in await session.fetch(QUERIES.take_hosts, host_ids=list(host_ids))
        }
        held = await session.fetch(QUERIES.count_held, host_ids=list(taken), now=wish.now)
        return {
            row["host_id"]: (self._host_state(taken[row["host_id"]], row["held"]), row["at"]) for row in held
        }

    def _host_state(self, row: Row, held: int) -> HostState:
        limits = Limits(row["max_concurrent"], row["min_delay_seconds"]).over(self._fleet)
        return HostState(limits, row["next_at"], row["cooling_until"], held)

    async def _skipped(self, queues: Sequence[str], domain: str | None) -> dict[str | None, int]:
        """Matching jobs that nobody here could get, by who holds them; None is politeness."""
        host_ids = None
        if domain is not None:
            host_ids = [row["host_id"] for row in await self._db.fetch(QUERIES.domain_hosts, domain=domain)]
        rows = await self._db.fetch(QUERIES.held_elsewhere, hot=True, queues=list(queues), host_ids=host_ids)
        return {row["bot_id"]: row["jobs"] for row in rows}

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
    now: datetime | None


async def _lock_jobs(session: Session, wish: Wish, allowed: Mapping[int, int]) -> list[Row]:
    hosts = {**wish.free_hosts, **{i: most for i, most in allowed.items() if most > 0}}
    return await session.fetch(
        QUERIES.lock_jobs,
        bots=wish.seats,
        queues=wish.queues,
        free_queues=wish.free_queues,
        host_ids=list(hosts),
        allowed=list(hosts.values()),
        now=wish.now,
    )


def _share_out(
    pulls: Iterable[Pull], rows: Sequence[Row], skipped: Mapping[str | None, int], retry_after: float | None
) -> list[PullAnswer]:
    """Each row was locked for the bot whose seat it took: seats were given in the order of the pulls."""
    answers, jobs = [], iter(rows)
    held = sum(skipped.values())
    for pull in pulls:
        own = [_pulled(row) for row in islice(jobs, pull.most)]
        others = min(_MOST_SKIPPED, held - skipped.get(pull.bot_id, 0))
        wait = None if own else (retry_after if retry_after is not None else _SHORTEST_WAIT)
        answers.append(PullAnswer(jobs=own, count=len(own), skipped=others, retry_after=wait))
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
