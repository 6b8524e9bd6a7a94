"""What an operator does to jobs by hand: reset, expire, release. Each id is answered on its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from opilio.adapters.postgres import Database, Row, Session
from opilio.clock import Clock
from opilio.crawl.endings import give_back, lock_steps
from opilio.crawl.job import Cause, State, apply
from opilio.crawl.lock_end import QUERIES, Ledger, Step
from opilio.crawl.submit import Settling
from opilio.errors import Refused

_CAUSES = {"reset": Cause.RESET, "expire": Cause.EXPIRE, "release": Cause.RELEASE}


@dataclass(frozen=True, slots=True)
class Acted:
    """What became of one job: its new state, or why nothing was done."""

    job_id: UUID
    status: str | None = None
    refusal: Refused | None = None


class Acting:
    def __init__(self, database: Database, settling: Settling, *, clock: Clock | None = None) -> None:
        self._db = database
        self._settling = settling
        self._clock = clock or Clock()

    async def act(self, action: str, job_ids: Sequence[UUID], by: str) -> list[Acted]:
        unique = list(dict.fromkeys(job_ids))
        while True:
            try:
                done = await self._db.transact(lambda session: self._act(session, action, unique, by))
            except _Overtaken:
                continue
            return [done[job_id] for job_id in job_ids]

    async def _act(self, session: Session, action: str, job_ids: list[UUID], by: str) -> dict[UUID, Acted]:
        now = self._clock.now()
        active = {r["job_id"]: r for r in await session.fetch(QUERIES.take_jobs, job_ids=job_ids, now=now)}
        left = [i for i in job_ids if i not in active]
        ended = (
            {r["job_id"]: r for r in await session.fetch(QUERIES.take_finished, job_ids=left, now=now)}
            if left
            else {}
        )
        ledger = Ledger()
        done: dict[UUID, Acted] = {}
        revive: dict[UUID, Row] = {}
        for job_id in job_ids:
            try:
                if job_id in active:
                    done[job_id] = self._act_on_active(ledger, active[job_id], action, by)
                elif job_id in ended:
                    row = ended[job_id]
                    done[job_id] = _check_revival(row, action, busy=row["busy"] or row["policy_id"] in revive)
                    revive[row["policy_id"]] = row
                else:
                    raise Refused("job_not_found", f"there is no job {job_id}")
            except Refused as refusal:
                done[job_id] = Acted(job_id, refusal=refusal)
        for row in revive.values():
            ledger.steps += _steps_of_revival(row, by)
        if revive:
            await self._revive(session, list(revive.values()))
        some = next((row for row in (*active.values(), *ended.values())), None)
        if some is not None:
            await ledger.write(session, some["at"])
        return done

    def _act_on_active(self, ledger: Ledger, row: Row, action: str, by: str) -> Acted:
        state = State.LOCKED if row["place"] == "locked" else State.PENDING
        to = apply(state, _CAUSES[action])
        if action == "expire":
            self._settling.expire_into(ledger, row, by, "expired by hand")
            last = ledger.returned[-1].job_id if ledger.returned else None
            return Acted(row["job_id"], status=State.PENDING if last == row["job_id"] else to)
        reason = "reset for re-execution" if action == "reset" else "lock released by hand"
        give_back(ledger, row, row["at"], by, reason, afresh=action == "reset")
        return Acted(row["job_id"], status=to)

    async def _revive(self, session: Session, rows: Sequence[Row]) -> None:
        job_ids = [row["job_id"] for row in rows]
        revived = await session.fetch(QUERIES.revive_jobs, job_ids=job_ids, now=self._clock.now())
        if len(revived) < len(rows):
            raise _Overtaken


class _Overtaken(Exception):
    """The scheduler made a job for one of the policies between our look and our write: look again."""


def _check_revival(row: Row, action: str, *, busy: bool) -> Acted:
    to = apply(State(row["status"]), _CAUSES[action])
    if row["deleted_at"] is not None:
        raise Refused("invalid_state", "the policy of this job was deleted")
    if busy:
        raise Refused("invalid_state", "the policy has an active job already; wait for it, or release it")
    return Acted(row["job_id"], status=to)


def _steps_of_revival(row: Row, by: str) -> list[Step]:
    ended = State(row["status"])
    past = lock_steps(
        row, ended, row["finished_at"], row["finished_by"], row["reason"], row["digest"], row["answer"]
    )
    return [*past, Step(row["job_id"], ended, State.PENDING, row["at"], by, "reset for re-execution")]
