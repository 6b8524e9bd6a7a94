"""Random histories on a real database against a plain model of what must be true.

The model knows only what a person would say about jobs: who holds which, how many retries are spent, what a
token is worth. Whatever the order of pulls, submits, heartbeats, releases, sweeps, resets, switches and jumps of
the clock, the database must agree with it, and the audit must find nothing.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID, uuid4

import asyncpg
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from opilio.adapters.postgres import Database
from opilio.clock import FixedClock
from opilio.contracts.bot_api import PulledJob
from opilio.contracts.policies import PolicyPatch
from opilio.crawl.politeness import Limits
from opilio.runtime.bootstrap import wire
from opilio.runtime.settings import load_settings
from tests.crawl.farm import Farm, held, refused, said

BOTS = ("ann", "bob")
HOSTS = ("free.example", "capped.example", "slow.example")
RETRIES = 2
TTL = timedelta(minutes=10)


@dataclass
class Job:
    """A job as a person would describe it."""

    policy: UUID
    state: str = "pending"
    retries: int = 0
    holder: str | None = None
    until: datetime | None = None
    since: datetime | None = None
    token: UUID | None = None


@dataclass(frozen=True)
class Lock:
    """A lock that was given out once; it stays interesting after it is lost."""

    bot: str
    job: PulledJob


class Machine(RuleBasedStateMachine):
    loop: ClassVar[asyncio.AbstractEventLoop]
    farm: ClassVar[Farm]

    def __init__(self) -> None:
        super().__init__()
        self.jobs: dict[UUID, Job] = {}
        self.enabled: dict[UUID, bool] = {}
        self.locks: list[Lock] = []
        self.results: dict[UUID, UUID] = {}

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    @property
    def now(self) -> datetime:
        return self.farm.clock.at

    def active(self, policy: UUID) -> UUID | None:
        found = [
            i for i, job in self.jobs.items() if job.policy == policy and job.state in {"pending", "locked"}
        ]
        assert len(found) <= 1
        return found[0] if found else None

    # ── the world ────────────────────────────────────────────────────────────────────────────────

    @initialize()
    def begin(self) -> None:
        self.do(self._begin())

    async def _begin(self) -> None:
        await self.farm.rows(
            "truncate host, policy, crawl_state, gate, job_archive, job_step, result, result_html, "
            "changed_value, first_values, late_result, event cascade"
        )
        self.farm.clock.at = datetime.now(UTC).replace(microsecond=0)
        await self.farm.opilio.hosts.set_limits("capped.example", Limits(1, None))
        await self.farm.opilio.hosts.set_limits("slow.example", Limits(None, 60))
        for host in HOSTS:
            for policy in await self.farm.policies(2, host=host, max_retries=RETRIES, frequency_hours=1):
                self.enabled[policy] = True

    @rule(seconds=st.sampled_from([1, 59, 301, 599, 600, 601, 3600, 8000]))
    def time_passes(self, seconds: int) -> None:
        self.farm.later(seconds=seconds)

    # ── the scheduler ────────────────────────────────────────────────────────────────────────────

    @rule()
    def create_due(self) -> None:
        self.do(self.farm.due())
        for row in self.do(self.farm.rows("select job_id, policy_id from job_active")):
            if row["job_id"] not in self.jobs:
                assert self.enabled[row["policy_id"]], "a policy that is off got a job"
                assert self.active(row["policy_id"]) is None, "a policy got a second job"
                self.jobs[row["job_id"]] = Job(row["policy_id"])

    @rule()
    def sweep(self) -> None:
        over = [
            i for i, job in self.jobs.items() if job.state == "locked" and job.until and job.until <= self.now
        ]
        swept = self.do(self.farm.opilio.lock_expiry.run_once())
        assert swept.total == len(over)
        for job_id in over:
            self._expired(self.jobs[job_id])

    def _expired(self, job: Job) -> None:
        again = job.retries < RETRIES
        self._unlock(job, "pending" if again else "expired")
        job.retries += again

    @staticmethod
    def _unlock(job: Job, state: str) -> None:
        job.state, job.holder, job.until, job.token, job.since = state, None, None, None, None

    # ── bots ─────────────────────────────────────────────────────────────────────────────────────

    @rule(bot=st.sampled_from(BOTS), most=st.integers(1, 7))
    def pull(self, bot: str, most: int) -> None:
        known = {lock.job.lock_token for lock in self.locks}
        capped = sum(self._is_locked_on(job, "capped.example") for job in self.jobs.values())
        found = self.do(self.farm.pull(bot, most))
        assert len(found) <= most
        assert sum("capped.example" in job.url for job in found) + capped <= 1, "more than the cap"
        assert sum("slow.example" in job.url for job in found) <= 1, "more than one within the delay"
        for pulled in found:
            job = self.jobs[pulled.job_id]
            assert job.state == "pending", "a job was given out that was not waiting"
            assert self.enabled[job.policy], "the job of a policy that is off was given out"
            assert pulled.lock_token not in known, "a token was used twice"
            assert pulled.retry_count == job.retries
            job.state, job.holder, job.token = "locked", bot, pulled.lock_token
            job.since, job.until = self.now, pulled.locked_until
            self.locks.append(Lock(bot, pulled))

    @rule(bot=st.sampled_from(BOTS))
    def lose_and_regain(self, bot: str) -> None:
        """The road on which fences matter: a bot loses its locks by time and gets the same jobs again."""
        self.time_passes(601)
        self.sweep()
        self.time_passes(3600)
        self.pull(bot, 7)

    def _is_locked_on(self, job: Job, host: str) -> bool:
        return job.state == "locked" and any(
            lock.job.lock_token == job.token and host in lock.job.url for lock in self.locks
        )

    def _some_lock(self, data: st.DataObject) -> Lock:
        """One of the newest, lost or not: old ones all look the same."""
        return data.draw(st.sampled_from(self.locks[-12:]))

    def _holds(self, lock: Lock) -> bool:
        job = self.jobs[lock.job.job_id]
        return (
            job.state == "locked"
            and job.token == lock.job.lock_token
            and bool(job.until and self.now < job.until)
        )

    @precondition(lambda self: self.locks)
    @rule(data=st.data(), price=st.integers(1, 3), foreign=st.booleans())
    def succeed(self, data: st.DataObject, price: int, foreign: bool) -> None:
        lock = self._some_lock(data)
        if foreign:
            answer = self.do(self.farm.submit(lock.job, "mallory", price=price))
            assert refused(answer) == "not_assigned"
            return
        answer = self.do(self.farm.submit(lock.job, lock.bot, price=price))
        job = self.jobs[lock.job.job_id]
        if self._holds(lock):
            result = UUID(said(answer)["result_id"])
            assert lock.job.job_id not in self.results, "a job got a second result"
            self.results[lock.job.job_id] = result
            self._unlock(job, "done")
            job.token = lock.job.lock_token
        elif answer.refusal is None:
            assert said(answer)["result_id"] == str(self.results[lock.job.job_id]), "a lost lock was accepted"
        else:
            assert refused(answer) in {"lock_expired", "invalid_state"}

    @precondition(lambda self: self.locks)
    @rule(data=st.data(), code=st.sampled_from([None, "TIMEOUT", "PARSE_ERROR", "RATE_LIMITED"]))
    def fail(self, data: st.DataObject, code: str | None) -> None:
        lock = self._some_lock(data)
        holds, job = self._holds(lock), self.jobs[lock.job.job_id]
        extra = {"error_code": code, "retry_after": 30} if code == "RATE_LIMITED" else {"error_code": code}
        answer = self.do(self.farm.fail(lock.job, lock.bot, **extra))
        if not holds:
            return  # the same failure again, or refused; the invariants see whether it changed anything
        if code == "PARSE_ERROR" or job.retries >= RETRIES:
            assert said(answer)["status"] == "failed"
            self._unlock(job, "failed")
        else:
            assert said(answer)["status"] == "pending"
            self._unlock(job, "pending")
            job.retries += 1

    @precondition(lambda self: self.locks)
    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject) -> None:
        lock = self._some_lock(data)
        holds, job = self._holds(lock), self.jobs[lock.job.job_id]
        answer = self.do(self.farm.beat(lock.job, lock.bot))
        assert (answer.refusal is None) == holds
        if holds:
            assert job.since
            assert job.until
            job.until = max(job.until, min(self.now + TTL, job.since + 10 * TTL))
            assert datetime.fromisoformat(said(answer)["locked_until"]) == job.until

    @precondition(lambda self: self.locks)
    @rule(data=st.data(), twice=st.booleans())
    def release(self, data: st.DataObject, twice: bool) -> None:
        lock = self._some_lock(data)
        holds, job = self._holds(lock), self.jobs[lock.job.job_id]
        claims = [held(lock.job, lock.bot)] * (2 if twice else 1)
        answers = self.do(self.farm.opilio.heartbeats.release(claims))
        if holds:
            assert all(said(answer)["status"] == "pending" for answer in answers)
            self._unlock(job, "pending")

    # ── operators ────────────────────────────────────────────────────────────────────────────────

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), action=st.sampled_from(["reset", "expire", "release"]))
    def act(self, data: st.DataObject, action: str) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.jobs)))
        job = self.jobs[job_id]
        possible = job.state == "locked" or (action == "reset" and job.state in {"failed", "expired"})
        busy = job.state != "locked" and self.active(job.policy) is not None
        (done, unknown) = self.do(
            self.farm.opilio.operator_actions.apply(action, [job_id, uuid4()], "operator:ann")
        )
        assert unknown.refusal is not None
        assert (done.refusal is None) == (possible and not busy)
        if done.refusal is not None:
            return
        if action == "expire":
            self._expired(job)
        else:
            self._unlock(job, "pending")
            job.retries = 0 if action == "reset" else job.retries

    @rule(data=st.data(), on=st.booleans())
    def switch(self, data: st.DataObject, on: bool) -> None:
        policy = data.draw(st.sampled_from(sorted(self.enabled)))
        self.do(self.farm.opilio.policies.change(policy, PolicyPatch(enabled=on)))
        self.enabled[policy] = on

    @rule(data=st.data())
    def run_now(self, data: st.DataObject) -> None:
        policy = data.draw(
            st.sampled_from(sorted(policy for policy in self.enabled if self.enabled[policy]) or [uuid4()])
        )
        active = self.active(policy)
        job_id = self.do(self.farm.opilio.operator_actions.run_now(policy, "operator:ann"))
        if policy not in self.enabled:
            assert job_id is None
        elif active is None:
            self.jobs[job_id] = Job(policy)
        else:
            assert job_id == active

    @rule()
    def mend(self) -> None:
        assert self.do(self.farm.opilio.scheduler.repair()) == 0, "there was something to mend"

    # ── what must hold ───────────────────────────────────────────────────────────────────────────

    @invariant()
    def the_database_agrees(self) -> None:
        rows = self.do(
            self.farm.rows("select job_id, status, retry_count, locked_by, lock_token, result_id from job")
        )
        seen = {row["job_id"]: row for row in rows}
        assert seen.keys() == self.jobs.keys(), "a job was lost, or came from nowhere"
        for job_id, job in self.jobs.items():
            row = seen[job_id]
            assert (row["status"], row["retry_count"]) == (job.state, job.retries)
            if job.state == "locked":
                assert (row["locked_by"], row["lock_token"]) == (job.holder, job.token)
            assert row["result_id"] == self.results.get(job_id)

    @invariant()
    def the_audit_finds_nothing(self) -> None:
        self.do(self.farm.audit())


def test_no_history_breaks_a_promise(server_url: str, tmp_path: Path) -> None:
    """Runs on a loop of its own, because the machine is not asynchronous."""
    name = f"machine_{uuid4().hex}"
    url = server_url.replace("/postgres?", f"/{name}?", 1)
    loop = asyncio.new_event_loop()

    async def admin(sql: str) -> None:
        connection = await asyncpg.connect(server_url)
        await connection.execute(sql)
        await connection.close()

    loop.run_until_complete(admin(f"create database {name} template opilio_template"))
    database = loop.run_until_complete(Database.connect(url))
    clock = FixedClock()
    wanted = load_settings(data_dir=tmp_path, database_url=url, schedule_jitter=0.0)
    Machine.loop, Machine.farm = loop, Farm(wire(wanted, database, clock), clock)
    try:
        Machine.TestCase.settings = settings(
            max_examples=50, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        )
        Machine.TestCase().runTest()
    finally:
        loop.run_until_complete(database.close())
        loop.run_until_complete(admin(f"drop database {name} with (force)"))
        loop.close()
