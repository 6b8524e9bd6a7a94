"""Heartbeat and release: a bot keeps its locks, or gives them back."""

from collections.abc import Sequence
from uuid import UUID

import msgspec

from opilio.adapters.postgres import Database, Row, Session
from opilio.clock import Clock
from opilio.contracts.bot_api import HeartbeatAnswer, ReleaseAnswer
from opilio.crawl.claims import Reply, check_claims
from opilio.crawl.job import MAX_EXTENSION, Cause, State, apply
from opilio.crawl.known_locks import KnownLocks
from opilio.crawl.lock_end import LockEnds
from opilio.crawl.sql import QUERIES
from opilio.errors import Refused
from opilio.lock_rules import Accepted, Claim, ClaimStatus, Late, Repeated

_encode = msgspec.json.Encoder().encode
_RELEASE = b"release"


class Heartbeats:
    def __init__(
        self, database: Database, *, known: KnownLocks | None = None, clock: Clock | None = None
    ) -> None:
        self._db = database
        self._known = known or KnownLocks(clock)
        self._clock = clock or Clock()

    async def heartbeat(self, claims: Sequence[Claim]) -> list[Reply]:
        """Extends locks that are alive and the bot's own."""
        self._known.forget(c.job_id for c in claims)

        async def work(session: Session) -> list[Reply]:
            rows = await session.fetch(
                QUERIES.extend_locks,
                job_ids=[c.job_id for c in claims],
                bots=[c.bot_id for c in claims],
                tokens=[c.lock_token for c in claims],
                longest=MAX_EXTENSION,
                now=self._clock.now(),
            )
            extended = {(r["job_id"], r["locked_by"], r["lock_token"]): r["locked_until"] for r in rows}
            missed = [c for c in claims if _lock(c) not in extended]
            checked = await check_claims(session, missed, self._clock.now()) if missed else ()
            refused = iter([_refused(status) for _, status, _ in checked])
            return [
                Reply(data=_encode(HeartbeatAnswer(locked_until=extended[_lock(c)])))
                if _lock(c) in extended
                else next(refused)
                for c in claims
            ]

        return await self._db.transact(work, hot=True)

    async def release(self, claims: Sequence[Claim]) -> list[Reply]:
        """Gives jobs back: same priority, same retries, ready at once."""
        self._known.forget(c.job_id for c in claims)
        claims = [Claim(c.bot_id, c.job_id, c.lock_token, _RELEASE) for c in claims]

        async def work(session: Session) -> list[Reply]:
            checked = await check_claims(session, claims, self._clock.now())
            ends = LockEnds()
            replies = [_release(ends, *one) for one in checked]
            await ends.write(session, checked.now)
            if ends.returned:
                await session.execute(QUERIES.notify_work)
            return replies

        return await self._db.transact(work, hot=True)


def _lock(claim: Claim) -> tuple[UUID, str, UUID | None]:
    return claim.job_id, claim.bot_id, claim.lock_token


def _release(ends: LockEnds, claim: Claim, status: ClaimStatus, row: Row | None) -> Reply:
    if isinstance(status, Repeated):
        return Reply(data=status.answer.encode())
    if row is None or not isinstance(status, Accepted):
        return _refused(status)
    body = _encode(ReleaseAnswer())
    if claim.job_id in ends.returned:  # the job is in the list twice
        return Reply(data=body)
    ends.give_back(row, Cause.RELEASE, f"bot:{claim.bot_id}", "released by the bot", claim.digest, body)
    return Reply(data=body, state=apply(State.LOCKED, Cause.RELEASE))


def _refused(status: ClaimStatus) -> Reply:
    match status:
        case Late(refusal) | (Refused() as refusal):
            return Reply(refusal=refusal)
        case _:
            return Reply(
                refusal=Refused("invalid_state", "the lock changed while this was under way; ask again")
            )
