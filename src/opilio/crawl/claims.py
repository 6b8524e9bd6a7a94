"""The bench before which claims are judged: the facts of the jobs they speak of."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from opilio.adapters.postgres import Row, Session
from opilio.crawl import submission
from opilio.crawl.job import State
from opilio.crawl.lock_end import QUERIES
from opilio.crawl.submission import Claim, Judgement, PastLock, Standing


@dataclass(slots=True)
class Bench:
    """The facts before which claims are judged."""

    now: datetime
    rows: dict[UUID, Row]
    jobs: dict[UUID, Standing]
    past: dict[UUID, list[PastLock]]

    async def recall(self, session: Session, job_ids: Iterable[UUID]) -> None:
        ids = list(job_ids)
        for row in await session.fetch(QUERIES.take_ended, job_ids=ids):
            self.jobs[row["job_id"]] = Standing(
                State(row["status"]),
                row["locked_by"],
                row["lock_token"],
                row["locked_until"],
                row["digest"],
                row["answer"],
            )
        for row in await session.fetch(QUERIES.past_locks, job_ids=ids):
            self.past[row["job_id"]].append(
                PastLock(row["bot_id"], row["lock_token"], row["taken"], row["digest"], row["answer"])
            )

    def judge(self, claim: Claim) -> Judgement:
        return submission.judge(claim, self.jobs.get(claim.job_id), self.past[claim.job_id], self.now)


def standing_of(row: Row) -> Standing:
    state = State.LOCKED if row["place"] == "locked" else State.PENDING
    return Standing(state, row["locked_by"], row["lock_token"], row["locked_until"])
