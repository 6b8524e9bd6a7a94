"""Ends locks: results, failures, expiry, release. One transaction covers job, result, policy, timeline and event."""

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

import msgspec

from opilio.adapters.postgres import Database, Row, Session
from opilio.clock import Clock
from opilio.contracts import events
from opilio.contracts.bot_api import DoneAnswer, FailedAnswer, HeartbeatAnswer, ReleaseAnswer, RetryAnswer
from opilio.contracts.codes import ErrorCode, worth_retrying
from opilio.crawl import retry, submission
from opilio.crawl.claims import Bench, standing_of
from opilio.crawl.endings import (
    attempt_of,
    completed,
    failed,
    free_host,
    give_back,
    last_values,
    lock_steps,
    returned,
    spoken,
)
from opilio.crawl.history import changes, remembered
from opilio.crawl.job import MAX_EXTENSION, State
from opilio.crawl.lock_end import QUERIES, Finish, LateResult, Ledger, Result, Step
from opilio.crawl.politeness import cool_down
from opilio.crawl.retry import Chance
from opilio.crawl.submission import Accepted, Claim, Judgement, Late, Repeated, Submission
from opilio.errors import Refused
from opilio.ids import uuid7

_encode = msgspec.json.Encoder(decimal_format="number").encode
_RELEASE = b"release"


class Pages(Protocol):
    """Where large pages go."""

    async def put_page(self, result_id: UUID, html: str) -> str | None:
        """Stores a page that is too large for the database and answers its key; None for a small one."""


class Answer(msgspec.Struct, frozen=True):
    """What one claim is answered: data for the envelope, or a refusal."""

    data: bytes | None = None
    refusal: Refused | None = None
    state: State | None = None


@dataclass(frozen=True, slots=True)
class Expiry:
    """What a sweep did."""

    retried: int = 0
    ended: int = 0

    @property
    def total(self) -> int:
        return self.retried + self.ended


class Settling:
    """Decides by the rules and writes by sets."""

    def __init__(
        self, database: Database, pages: Pages, *, jitter: float = 0.1, clock: Clock | None = None
    ) -> None:
        self._db = database
        self._pages = pages
        self._jitter = jitter
        self._clock = clock or Clock()

    # ── submit ───────────────────────────────────────────────────────────────────────────────────

    async def submit(self, submissions: Sequence[Submission]) -> list[Answer]:
        """Answers each on its own. The same job twice in one list is settled in the order given."""
        answers: dict[int, Answer] = {}
        for turn in _turns(submissions):
            batch = await self._submit_once([submissions[i] for i in turn])
            answers.update(zip(turn, batch, strict=True))
        return [answers[i] for i in range(len(submissions))]

    async def _submit_once(self, batch: Sequence[Submission]) -> list[Answer]:
        ids = [uuid7() for _ in batch]
        blobs = [
            await self._pages.put_page(i, s.raw_html) if s.success and s.raw_html else None
            for i, s in zip(ids, batch, strict=True)
        ]

        async def work(session: Session) -> list[Answer]:
            bench = await self._bench(session, [s.claim for s in batch])
            ledger = Ledger()
            answers = [
                self._settle(ledger, bench, s, result_id, blob)
                for s, result_id, blob in zip(batch, ids, blobs, strict=True)
            ]
            await ledger.write(session, bench.now)
            return answers

        return await self._db.transact(work, hot=True)

    def _settle(
        self, ledger: Ledger, bench: Bench, sent: Submission, result_id: UUID, blob: str | None
    ) -> Answer:
        match bench.judge(sent.claim):
            case Accepted():
                row = bench.rows[sent.claim.job_id]
                if sent.success:
                    return self._succeed(ledger, row, sent, result_id, blob)
                return self._fail(ledger, row, sent)
            case Repeated(answer):
                return Answer(data=answer.encode())
            case Late(refusal):
                ledger.late.append(LateResult(sent.claim, refusal.message, spoken(sent), bench.now))
                return Answer(refusal=refusal)
            case Refused() as refusal:
                return Answer(refusal=refusal)

    def _succeed(
        self, ledger: Ledger, row: Row, sent: Submission, result_id: UUID, blob: str | None
    ) -> Answer:
        verdict = retry.succeed(attempt_of(row), row["at"], self._chance())
        assert verdict.next_run_at is not None
        before = last_values(row)
        changed = changes(before, sent.values)
        ledger.changed += [(row, change) for change in changed]
        free_host(ledger, row)
        answer = DoneAnswer(
            result_id=result_id,
            job_id=row["job_id"],
            price=sent.values.price,
            currency=sent.values.currency,
            policy_next_run=verdict.next_run_at,
        )
        body = _encode(answer)
        ledger.finished.append(
            Finish(
                row=row,
                verdict=verdict,
                by=f"bot:{sent.claim.bot_id}",
                reason="result accepted",
                event_type=events.JOB_COMPLETED,
                event=completed(row, sent, result_id, [change.field for change in changed]),
                last_data=remembered(before, sent.values),
                result=Result(
                    result_id=result_id,
                    bot_id=sent.claim.bot_id,
                    values=sent.values,
                    data=sent.data,
                    html_hash=sent.html_hash,
                    duration=sent.crawl_duration,
                    html_body=None if blob else sent.raw_html,
                    html_blob=blob,
                ),
                digest=sent.claim.digest,
                answer=body,
            )
        )
        return Answer(data=body, state=State.DONE)

    def _fail(self, ledger: Ledger, row: Row, sent: Submission) -> Answer:
        now: datetime = row["at"]
        wait = self._cool(ledger, row, sent)
        verdict = retry.fail(attempt_of(row), now, self._chance(), sent.error_code, wait)
        by = f"bot:{sent.claim.bot_id}"
        why = f"{sent.error_code or 'failure'}: {sent.error_msg or 'no message'}"
        free_host(ledger, row)
        if verdict.retried:
            body = _encode(
                RetryAnswer(
                    job_id=row["job_id"],
                    retry_count=verdict.retry_count,
                    max_retries=row["max_retries"],
                    message=f"the job will be tried again at {verdict.run_at:%Y-%m-%dT%H:%M:%SZ}",
                )
            )
            ledger.steps += lock_steps(row, State.PENDING, now, by, why, sent.claim.digest, body)
            ledger.returned.append(returned(row, verdict, sent.error_msg, sent.error_code))
            return Answer(data=body, state=State.PENDING)
        assert verdict.next_run_at is not None
        hopeless = not worth_retrying(sent.error_code)
        body = _encode(
            FailedAnswer(
                job_id=row["job_id"],
                retry_count=row["retry_count"],
                max_retries=row["max_retries"],
                message=f"{sent.error_code} is not worth a retry" if hopeless else "no retries are left",
                policy_next_run=verdict.next_run_at,
            )
        )
        ledger.finished.append(
            Finish(
                row=row,
                verdict=verdict,
                by=by,
                reason=why,
                event_type=events.JOB_FAILED,
                event=failed(row, verdict, sent.error_msg, sent.error_code),
                error=sent.error_msg,
                error_code=sent.error_code,
                digest=sent.claim.digest,
                answer=body,
            )
        )
        return Answer(data=body, state=State.FAILED)

    def _cool(self, ledger: Ledger, row: Row, sent: Submission) -> timedelta:
        """A rate-limited answer closes the host for everyone; the retry waits at least as long."""
        if sent.error_code != ErrorCode.RATE_LIMITED:
            return timedelta(0)
        now: datetime = row["at"]
        known, _ = ledger.cooled.get(row["host_id"], (None, ""))
        until = known.until if known else row["cooling_until"]
        strikes = row["strikes"]
        cooling = cool_down(now, until, strikes, sent.retry_after)
        ledger.cooled[row["host_id"]] = (
            cooling,
            f"{row['host']} answered RATE_LIMITED to {sent.claim.bot_id}",
        )
        return cooling.until - now

    # ── heartbeat, release ───────────────────────────────────────────────────────────────────────

    async def heartbeat(self, claims: Sequence[Claim]) -> list[Answer]:
        """Extends locks that are alive and the bot's own."""

        async def work(session: Session) -> list[Answer]:
            rows = await session.fetch(
                QUERIES.extend_locks,
                job_ids=[c.job_id for c in claims],
                bots=[c.bot_id for c in claims],
                tokens=[c.lock_token for c in claims],
                longest=MAX_EXTENSION,
                now=self._clock.now(),
            )
            extended = {row["job_id"]: row["locked_until"] for row in rows}
            missed = [c for c in claims if c.job_id not in extended]
            bench = await self._bench(session, missed) if missed else None
            return [
                Answer(data=_encode(HeartbeatAnswer(locked_until=extended[c.job_id])))
                if c.job_id in extended
                else _refused(bench.judge(c))  # type: ignore[union-attr]
                for c in claims
            ]

        return await self._db.transact(work, hot=True)

    async def release(self, claims: Sequence[Claim]) -> list[Answer]:
        """Gives jobs back unharmed: same priority, same retries, ready at once."""
        claims = [Claim(c.bot_id, c.job_id, c.lock_token, _RELEASE) for c in claims]

        async def work(session: Session) -> list[Answer]:
            bench = await self._bench(session, claims)
            ledger = Ledger()
            answers = [self._release(ledger, bench, claim) for claim in claims]
            await ledger.write(session, bench.now)
            return answers

        return await self._db.transact(work, hot=True)

    def _release(self, ledger: Ledger, bench: Bench, claim: Claim) -> Answer:
        judgement = bench.judge(claim)
        if not isinstance(judgement, Accepted):
            return (
                Answer(data=judgement.answer.encode())
                if isinstance(judgement, Repeated)
                else _refused(judgement)
            )
        if any(r.job_id == claim.job_id for r in ledger.returned):  # named twice in one list
            return Answer(data=_encode(ReleaseAnswer()))
        body = _encode(ReleaseAnswer())
        row = bench.rows[claim.job_id]
        give_back(ledger, row, bench.now, f"bot:{claim.bot_id}", "released by the bot", claim.digest, body)
        return Answer(data=body, state=State.PENDING)

    # ── expiry ───────────────────────────────────────────────────────────────────────────────────

    async def expire(self, *, most: int = 1000) -> Expiry:
        """One bounded sweep over locks that ran out."""

        async def work(session: Session) -> Expiry:
            found = await session.fetch(QUERIES.find_expired, most=most, now=self._clock.now())
            if not found:
                return Expiry()
            rows = await self._take(session, [row["job_id"] for row in found])
            return await self._expire_rows(session, rows, "sweeper", "the lock ran out")

        return await self._db.transact(work, hot=True)

    async def _expire_rows(self, session: Session, rows: Sequence[Row], by: str, why: str) -> Expiry:
        ledger = Ledger()
        for row in rows:
            self.expire_into(ledger, row, by, why)
        if rows:
            await ledger.write(session, rows[0]["at"])
        return Expiry(len(ledger.returned), len(ledger.finished))

    def expire_into(self, ledger: Ledger, row: Row, by: str, why: str) -> None:
        """LOCKED → EXPIRED → PENDING, or EXPIRED for good."""
        now: datetime = row["at"]
        verdict = retry.expire(attempt_of(row), now, self._chance())
        reason = f"{why} after {row['lock_ttl_seconds']:g} s ({row['locked_by']})"
        free_host(ledger, row)
        if verdict.retried:
            ledger.steps += lock_steps(row, State.EXPIRED, now, by, reason)
            again = f"retry {verdict.retry_count} of {row['max_retries']}"
            ledger.steps.append(Step(row["job_id"], State.EXPIRED, State.PENDING, now, by, again))
            ledger.returned.append(returned(row, verdict, reason, None))
            return
        ledger.finished.append(
            Finish(
                row=row,
                verdict=verdict,
                by=by,
                reason=reason,
                event_type=events.JOB_FAILED,
                event=failed(row, verdict, reason, row["last_error_code"]),
                error=reason,
            )
        )

    # ── shared ───────────────────────────────────────────────────────────────────────────────────

    async def _take(self, session: Session, job_ids: Sequence[UUID]) -> list[Row]:
        return await session.fetch(QUERIES.take_jobs, job_ids=list(job_ids), now=self._clock.now())

    async def _bench(self, session: Session, claims: Sequence[Claim]) -> Bench:
        """Loads all that a judgement needs; the history only where a claim is not simply the holder's."""
        rows = {row["job_id"]: row for row in await self._take(session, [c.job_id for c in claims])}
        now = next((row["at"] for row in rows.values()), None)
        if now is None:
            now = await session.value(QUERIES.clock, now=self._clock.now())
        bench = Bench(now, rows, {i: standing_of(row) for i, row in rows.items()}, defaultdict(list))
        doubtful = [
            c.job_id
            for c in claims
            if c.job_id not in rows or not submission.holds(c, bench.jobs[c.job_id], now)
        ]
        if doubtful:
            await bench.recall(session, doubtful)
        return bench

    def _chance(self) -> Chance:
        return Chance(self._jitter, random.random())


def _turns(submissions: Sequence[Submission]) -> list[list[int]]:
    """Positions, cut so that no job stands twice in one turn."""
    turns: list[list[int]] = []
    times: Counter[UUID] = Counter()
    for position, sent in enumerate(submissions):
        turn = times[sent.claim.job_id]
        times[sent.claim.job_id] += 1
        if turn == len(turns):
            turns.append([])
        turns[turn].append(position)
    return turns


def _refused(judgement: Judgement) -> Answer:
    match judgement:
        case Late(refusal) | (Refused() as refusal):
            return Answer(refusal=refusal)
        case _:
            return Answer(
                refusal=Refused("invalid_state", "the lock changed while this was under way; ask again")
            )
