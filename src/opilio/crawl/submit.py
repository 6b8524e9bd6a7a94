"""Submits: a claim checked, the outcome decided, everything written in one transaction."""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

import msgspec

from opilio.adapters.postgres import Database, Row, Session
from opilio.clock import Clock
from opilio.contracts.bot_api import DoneAnswer, FailedAnswer, RetryAnswer
from opilio.contracts.codes import ErrorCode, worth_retrying
from opilio.crawl import retry
from opilio.crawl.adaptive.reschedule import FIXED, Rescheduled, change_time, has_changed, reschedule
from opilio.crawl.alert import CrawledPage
from opilio.crawl.alerts import check_alerts
from opilio.crawl.claims import CheckedClaims, Reply, check_claims
from opilio.crawl.completed_job import Success, last_values, result_row, unmodified_row
from opilio.crawl.finished_job import StoredPage, failed_row
from opilio.crawl.history import Change, Values, changes
from opilio.crawl.job import State
from opilio.crawl.known_locks import KnownLocks
from opilio.crawl.lock_end import LateResult, LockEnds, failed_event, retry_facts
from opilio.crawl.politeness import cool_down
from opilio.crawl.submission import Submission
from opilio.errors import Refused
from opilio.ids import uuid7, uuid7s
from opilio.lock_rules import ACCEPTED, Accepted, ClaimStatus, Late, Repeated
from opilio.logs import get_logger

_log = get_logger(__name__)
_UPLOADS = 8
_RETRY_AFTER = 5
_encode = msgspec.json.Encoder(decimal_format="number").encode


class Pages(Protocol):
    """Where large pages are stored."""

    def is_large(self, html: str) -> bool:
        """Whether a page is too large for the database."""

    async def put_page(self, result_id: UUID, html: str) -> str:
        """Stores a page and answers its key."""


class Upload(msgspec.Struct, frozen=True):
    """The id of a result, and where its page is, outside the database."""

    result_id: UUID
    blob: str


class Seen(msgspec.Struct, frozen=True):
    """What a visit of an adaptive policy saw, and the next one."""

    before: Values
    changes: list[Change]
    rescheduled: Rescheduled


class Submitter:
    def __init__(
        self,
        database: Database,
        pages: Pages,
        *,
        jitter: float = 0.1,
        tolerance: Mapping[str, float] | None = None,
        known: KnownLocks | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._db = database
        self._known = known or KnownLocks(clock)
        self._pages = pages
        self._jitter = jitter
        self._tolerance = tolerance or {}
        self._uploads = asyncio.Semaphore(_UPLOADS)
        self._clock = clock or Clock()

    async def submit(self, submissions: Sequence[Submission]) -> list[Reply]:
        """Answers each on its own; a job that is in the list twice is handled in the order given."""
        replies: dict[int, Reply] = {}
        for group in _without_repeats(submissions):
            batch = await self._submit_once([submissions[i] for i in group])
            replies.update(zip(group, batch, strict=True))
        return [replies[i] for i in range(len(submissions))]

    def needs_upload(self, sent: Submission) -> bool:
        outcome = sent.outcome
        if sent.page is None or not outcome.success or outcome.not_modified:
            return False
        return self._pages.is_large(sent.page)

    async def _submit_once(self, batch: Sequence[Submission]) -> list[Reply]:
        uploads = await self._upload(batch)

        tries = 0

        async def work(session: Session) -> list[Reply]:
            nonlocal tries
            tries += 1
            if tries == 1:
                return await self._submit_in(session, batch, uploads, lock=False)
            async with session.transaction():  # somebody else was at one of the jobs
                return await self._submit_in(session, batch, uploads, lock=True)

        return await self._db.transact(work, hot=True, autocommit=True)

    async def _submit_in(
        self,
        session: Session,
        batch: Sequence[Submission],
        uploads: "Mapping[int, Upload | Refused]",
        *,
        lock: bool,
    ) -> list[Reply]:
        """Without `lock` a transaction begins when all is decided, if it takes more than one statement."""
        checked = await self._check(session, batch, lock=lock)
        ends = LockEnds(alerts_known=any(row["any_alerts"] for row in checked.rows if row is not None))
        visits, result_ids, now = self._visits(batch, checked), uuid7s(len(batch)), checked.now.timestamp()
        replies = [
            self._apply(ends, sent, row, now, uploads.get(i, result_ids[i]), visits.get(i))
            if status is ACCEPTED and row is not None
            else _refuse(ends, sent, status, checked.now)
            for i, (sent, (_, status, row)) in enumerate(zip(batch, checked, strict=True))
        ]
        if lock or ends.is_one_statement:
            await _write(session, ends, checked.now)
        else:
            async with session.transaction():
                await _write(session, ends, checked.now)
        return replies

    async def _check(self, session: Session, batch: Sequence[Submission], *, lock: bool) -> CheckedClaims:
        """Claims on jobs that are known since they were locked are not read again, if they succeed."""
        claims, now = [sent.claim for sent in batch], self._known.now()
        if lock or now is None:
            return await check_claims(session, claims, self._clock.now(), lock=lock)
        rows = self._known.take([sent.claim if sent.outcome.success else None for sent in batch], now)
        unknown = [position for position, row in enumerate(rows) if row is None]
        if not unknown:
            return CheckedClaims(now, claims, [ACCEPTED] * len(claims), rows)
        read = await check_claims(session, [claims[i] for i in unknown], self._clock.now(), lock=False)
        statuses: list[ClaimStatus] = [ACCEPTED] * len(claims)
        for position, (_, status, row) in zip(unknown, read, strict=True):
            statuses[position], rows[position] = status, row
        return CheckedClaims(read.now, claims, statuses, rows)

    async def _upload(self, batch: Sequence[Submission]) -> "dict[int, Upload | Refused]":
        """Large pages of accepted claims, side by side; a page that cannot be stored costs its own item only."""
        large = [i for i, sent in enumerate(batch) if self.needs_upload(sent)]
        if not large:
            return {}

        async def check(session: Session) -> list[int]:
            checked = await check_claims(
                session, [batch[i].claim for i in large], self._clock.now(), lock=False
            )
            return [i for i, status in zip(large, checked.statuses, strict=True) if status is ACCEPTED]

        accepted = await self._db.transact(check, hot=True)
        stored = await asyncio.gather(*(self._upload_one(batch[i]) for i in accepted))
        return dict(zip(accepted, stored, strict=True))

    async def _upload_one(self, sent: Submission) -> "Upload | Refused":
        assert sent.page is not None
        result_id = uuid7()
        try:
            async with self._uploads:
                return Upload(result_id, await self._pages.put_page(result_id, sent.page))
        except Exception as error:  # noqa: BLE001 - whatever the store says, only this item is refused
            _log.warning("submit.page_not_stored", job_id=str(sent.claim.job_id), error=str(error)[:300])
            return Refused(
                "unavailable",
                "the page could not be stored; submit again in %(seconds)s s",
                details={"retry_after": _RETRY_AFTER},
                seconds=_RETRY_AFTER,
            )

    def _visits(self, batch: Sequence[Submission], checked: CheckedClaims) -> "dict[int, Seen]":
        """What adaptive policies saw and when they are visited next, by position.

        For the whole batch at once: the rule is a third faster while its code and data stay in the processor's caches.
        """
        return {
            position: self._adapt(row, sent, checked.now)
            for position, (sent, row) in enumerate(zip(batch, checked.rows, strict=True))
            if row is not None and row["pool"] is not None and sent.outcome.success
        }

    def _apply(
        self,
        ends: LockEnds,
        sent: Submission,
        row: Row,
        now: float,
        upload: "UUID | Upload | Refused",
        seen: "Seen | None",
    ) -> Reply:
        if isinstance(upload, Refused):
            return Reply(refusal=upload)
        if not sent.outcome.success:
            return self._fail(ends, row, sent)
        success = self._planned(row, sent, seen) if seen is not None else self._fixed(row, sent, now)
        if sent.outcome.not_modified:
            ends.finish(row, unmodified_row(success))
            return _done(success, row["last_result_id"], success.before)
        return _store(ends, success, upload)

    def _fixed(self, row: Row, sent: Submission, now: float) -> Success:
        before, values = last_values(row), sent.values
        as_before = values.same_as(before)
        changed = [] if as_before and not values.data else changes(before, values)
        next_run_at = retry.next_run(row["frequency_hours"], now, self._draw())
        return Success(row, sent, next_run_at, retry.succeed(row["error_rate"]), changed, FIXED, as_before)

    def _planned(self, row: Row, sent: Submission, seen: "Seen") -> Success:
        assert seen.rescheduled.next_run_at is not None
        return Success(
            row,
            sent,
            seen.rescheduled.next_run_at,
            retry.succeed(row["error_rate"]),
            seen.changes,
            seen.rescheduled,
            sent.values.same_as(seen.before),
        )

    def _adapt(self, row: Row, sent: Submission, now: datetime) -> "Seen":
        """The next visit of an adaptive policy."""
        before = last_values(row)
        changed = changes(before, sent.values)
        saw_change = has_changed(
            row,
            sent.values,
            changed,
            sent.outcome.html_hash,
            not_modified=sent.outcome.not_modified,
            tolerance=self._tolerance,
        )
        said = sent.outcome.changed_at, sent.validators.last_modified
        at = change_time(row, now, *said) if saw_change else None
        return Seen(before, changed, reschedule(row, now, saw_change, at, (random.random(), random.random())))

    def _fail(self, ends: LockEnds, row: Row, sent: Submission) -> Reply:
        wait = self._cool(ends, row, sent)
        error, error_code = sent.outcome.error_msg, sent.outcome.error_code
        decision = retry.fail(retry_facts(row), row["at"], self._draw(), error_code, wait)
        by = f"bot:{sent.claim.bot_id}"
        reason = f"{error_code or 'failure'}: {error or 'no message'}"
        if decision.retried:
            body = _encode(
                RetryAnswer(
                    job_id=row["job_id"],
                    retry_count=decision.retry_count,
                    max_retries=row["max_retries"],
                    message=f"the job will be tried again at {decision.run_at:%Y-%m-%dT%H:%M:%SZ}",
                )
            )
            ends.retry(
                row,
                decision,
                by,
                [reason],
                error=error,
                error_code=error_code,
                digest=sent.claim.digest,
                answer=body,
            )
            return Reply(data=body, state=decision.state)
        assert decision.next_run_at is not None
        retryable = worth_retrying(error_code)
        body = _encode(
            FailedAnswer(
                job_id=row["job_id"],
                retry_count=row["retry_count"],
                max_retries=row["max_retries"],
                message="no retries are left" if retryable else f"{error_code} is not worth a retry",
                policy_next_run=decision.next_run_at,
            )
        )
        ends.finish(
            row,
            failed_row(
                row,
                decision,
                by,
                reason,
                error=error,
                error_code=error_code,
                event=failed_event(row, decision, error, error_code),
                digest=sent.claim.digest,
                answer=body,
            ),
        )
        return Reply(data=body, state=decision.state)

    def _cool(self, ends: LockEnds, row: Row, sent: Submission) -> timedelta:
        """RATE_LIMITED closes the host for all bots; the retry waits at least as long."""
        if sent.outcome.error_code != ErrorCode.RATE_LIMITED:
            return timedelta(0)
        now: datetime = row["at"]
        known, _ = ends.cooled.get(row["host_id"], (None, ""))
        until = known.until if known else row["cooling_until"]
        cooling = cool_down(now, until, row["strikes"], sent.outcome.retry_after)
        reason = f"{row['host']} answered RATE_LIMITED to {sent.claim.bot_id}"
        ends.cooled[row["host_id"]] = (cooling, reason)
        return cooling.until - now

    def _draw(self) -> float:
        return self._jitter * random.random()


async def _write(session: Session, ends: LockEnds, now: datetime) -> None:
    await ends.write(session, now)
    if ends.to_check:
        await check_alerts(session, ends.to_check, now)


def _without_repeats(submissions: Sequence[Submission]) -> list[list[int]]:
    """Positions in groups, so that no job is twice in one group."""
    if len({sent.claim.job_id.int for sent in submissions}) == len(submissions):
        return [list(range(len(submissions)))]
    groups: list[list[int]] = []
    seen: Counter[UUID] = Counter()
    for position, sent in enumerate(submissions):
        group = seen[sent.claim.job_id]
        seen[sent.claim.job_id] += 1
        if group == len(groups):
            groups.append([])
        groups[group].append(position)
    return groups


def _store(ends: LockEnds, success: Success, upload: UUID | Upload) -> Reply:
    """With the id of a new result, or a page that was stored under it."""
    row, sent = success.row, success.sent
    result_id, blob = (upload.result_id, upload.blob) if isinstance(upload, Upload) else (upload, None)
    ends.finish(row, result_row(success, result_id))
    if sent.page is not None:
        ends.pages.append(StoredPage(result_id, None if blob else sent.page, blob))
    if ends.alerts_known:
        ends.to_check.append(CrawledPage(row["policy_id"], row["url"], success.before, sent.values))
    return _done(success, result_id, sent.values)


def _done(success: Success, result_id: UUID | None, values: Values) -> Reply:
    answer = DoneAnswer(
        result_id=result_id,
        job_id=success.row["job_id"],
        price=values.price,
        currency=values.currency,
        policy_next_run=success.next_run_at,
    )
    return Reply(data=answer, state=State.DONE)


def _refuse(ends: LockEnds, sent: Submission, status: ClaimStatus, now: datetime) -> Reply:
    """The bot does not hold the job."""
    match status:
        case Repeated(answer):
            return Reply(data=answer.encode())
        case Late(refusal):
            ends.late.append(LateResult(sent.claim, refusal.message, _late_body(sent), now))
            return Reply(refusal=refusal)
        case Refused() as refusal:
            return Reply(refusal=refusal)
        case Accepted():
            raise AssertionError("unreachable")


def _late_body(sent: Submission) -> dict[str, Any]:
    """A late submission as people will read it."""
    outcome = sent.outcome
    return {
        "success": outcome.success,
        "price": sent.values.price,
        "currency": sent.values.currency,
        "title": outcome.title,
        "in_stock": outcome.in_stock,
        "data": outcome.data,
        "html_hash": outcome.html_hash,
        "raw_html": sent.page,
        "crawl_duration": outcome.crawl_duration,
        "error_msg": outcome.error_msg,
        "error_code": outcome.error_code,
    }
