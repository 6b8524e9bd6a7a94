"""What an operator does by hand: run now, reset, expire, release. API, dashboard and CLI call these."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from opilio import audit
from opilio.adapters.postgres import Database, Row, Session
from opilio.clock import Clock
from opilio.crawl.claims import state_of, take_jobs
from opilio.crawl.expire import LockExpiry
from opilio.crawl.job import Cause, State, apply
from opilio.crawl.lock_end import LockEnds, Step, lock_steps
from opilio.crawl.priority import History, Rules, score
from opilio.crawl.sql import QUERIES
from opilio.errors import NotFound, Refused

# The verbs of the API and the CLI.
CAUSES = {"reset": Cause.RESET, "expire": Cause.EXPIRE, "release": Cause.RELEASE}
_ENDED_BY = {State.DONE: Cause.SUCCEED, State.FAILED: Cause.FAIL, State.EXPIRED: Cause.EXPIRE}
_REASONS = {
    Cause.RESET: "reset for re-execution",
    Cause.EXPIRE: "expired by hand",
    Cause.RELEASE: "lock released by hand",
}


@dataclass(frozen=True, slots=True)
class ActionResult:
    """One job after an action: its new state, or why nothing was done."""

    job_id: UUID
    status: State | None = None
    refusal: Refused | None = None


class OperatorActions:
    """Each action writes its audit row and wakes waiting pulls in the transaction of the change."""

    def __init__(
        self,
        database: Database,
        expiry: LockExpiry,
        *,
        rules: Rules | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._db = database
        self._expiry = expiry
        self._rules = rules or Rules()
        self._clock = clock or Clock()

    async def run_now(self, policy_id: UUID, by: str) -> UUID:
        """A job at once, due or not; with an active job, that job, without waiting for its retry."""
        return await self._db.transact(lambda session: self._run_now(session, policy_id, by))

    async def _run_now(self, session: Session, policy_id: UUID, by: str) -> UUID:
        row = await session.row(QUERIES.policy_to_run, policy_id=policy_id)
        if row is None:
            raise NotFound("there is no policy %(id)s", id=str(policy_id))
        rated = score(History(row["priority"], 0, row["error_rate"], row["hot"]), self._rules)
        job_id: UUID | None = await session.value(
            QUERIES.create_now, policy_id=policy_id, priority=rated.priority, by=by, now=self._clock.now()
        )
        if job_id is None:
            job_id = await session.value(QUERIES.hurry_active_job, policy_id=policy_id, now=self._clock.now())
        if job_id is None:
            raise NotFound("there is no policy %(id)s", id=str(policy_id))
        await audit.record(session, by, "policy.run", str(policy_id))
        await session.execute(QUERIES.notify_work)
        return job_id

    async def reset(self, job_ids: Sequence[UUID], by: str) -> list[ActionResult]:
        """Returns locked, failed and expired jobs to the queue, with all their retries."""
        return await self._change("reset", job_ids, by)

    async def expire(self, job_ids: Sequence[UUID], by: str) -> list[ActionResult]:
        """Ends locks as if their TTL had passed."""
        return await self._change("expire", job_ids, by)

    async def release(self, job_ids: Sequence[UUID], by: str) -> list[ActionResult]:
        """Releases locks; the jobs return to the queue with the retries that they have left."""
        return await self._change("release", job_ids, by)

    async def apply(self, action: str, job_ids: Sequence[UUID], by: str) -> list[ActionResult]:
        """The action of that name; each id is answered on its own."""
        verbs = {"reset": self.reset, "expire": self.expire, "release": self.release}
        return await verbs[action](job_ids, by)

    async def _change(self, action: str, job_ids: Sequence[UUID], by: str) -> list[ActionResult]:
        unique = list(dict.fromkeys(job_ids))
        while True:
            try:
                results = await self._db.transact(
                    lambda session: self._change_once(session, action, unique, by)
                )
            except _PolicyGotAJobError:
                continue
            return [results[job_id] for job_id in job_ids]

    async def _change_once(
        self, session: Session, action: str, job_ids: list[UUID], by: str
    ) -> dict[UUID, ActionResult]:
        now = self._clock.now()
        active = {row["job_id"]: row for row in await take_jobs(session, job_ids, now)}
        ended = await self._take_ended(session, [i for i in job_ids if i not in active])
        ends = LockEnds()
        results: dict[UUID, ActionResult] = {}
        revived: dict[UUID, Row] = {}
        for job_id in job_ids:
            try:
                if job_id in active:
                    results[job_id] = self._change_active(ends, active[job_id], CAUSES[action], by)
                elif job_id in ended:
                    row = ended[job_id]
                    busy = row["busy"] or row["policy_id"] in revived
                    results[job_id] = _check_revival(row, CAUSES[action], busy=busy)
                    revived[row["policy_id"]] = row
                else:
                    raise Refused("job_not_found", "there is no job %(id)s", id=str(job_id))
            except Refused as refusal:
                results[job_id] = ActionResult(job_id, refusal=refusal)
        await self._revive(session, ends, list(revived.values()), by)
        some = next((row for row in (*active.values(), *ended.values())), None)
        if some is not None:
            await ends.write(session, some["at"])
        await self._record(session, action, results.values(), by)
        return results

    async def _take_ended(self, session: Session, job_ids: list[UUID]) -> dict[UUID, Row]:
        if not job_ids:
            return {}
        rows = await session.fetch(QUERIES.take_finished, job_ids=job_ids, now=self._clock.now())
        return {row["job_id"]: row for row in rows}

    def _change_active(self, ends: LockEnds, row: Row, cause: Cause, by: str) -> ActionResult:
        state = apply(state_of(row), cause)
        if cause is Cause.EXPIRE:
            state = self._expiry.expire(ends, row, by, _REASONS[cause])
        else:
            ends.give_back(row, cause, by, _REASONS[cause])
        return ActionResult(row["job_id"], status=state)

    async def _revive(self, session: Session, ends: LockEnds, rows: Sequence[Row], by: str) -> None:
        if not rows:
            return
        for row in rows:
            ends.steps += _revival_steps(row, by)
        job_ids = [row["job_id"] for row in rows]
        done = await session.fetch(QUERIES.revive_jobs, job_ids=job_ids, now=self._clock.now())
        if len(done) < len(rows):
            raise _PolicyGotAJobError

    async def _record(self, session: Session, action: str, results: Iterable[ActionResult], by: str) -> None:
        done = [result.job_id for result in results if result.refusal is None]
        if done:
            await audit.record(session, by, f"jobs.{action}", "jobs", {"ids": done})
            await session.execute(QUERIES.notify_work)


class _PolicyGotAJobError(Exception):
    """The scheduler made a job for one of the policies between our read and our write: try again."""


def _check_revival(row: Row, cause: Cause, *, busy: bool) -> ActionResult:
    state = apply(State(row["status"]), cause)
    if row["deleted_at"] is not None:
        raise Refused("invalid_state", "the policy of this job was deleted")
    if busy:
        raise Refused("invalid_state", "the policy has an active job already; wait for it, or release it")
    return ActionResult(row["job_id"], status=state)


def _revival_steps(row: Row, by: str) -> list[Step]:
    ended = State(row["status"])
    past = lock_steps(
        row,
        _ENDED_BY[ended],
        row["finished_at"],
        row["finished_by"],
        row["reason"],
        row["digest"],
        row["answer"],
    )
    revived = apply(ended, Cause.RESET)
    return [*past, Step(row["job_id"], ended, revived, row["at"], by, _REASONS[Cause.RESET])]
