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
from opilio.contracts import events
from opilio.contracts.bot_api import DoneAnswer, FailedAnswer, RetryAnswer
from opilio.contracts.codes import ErrorCode, worth_retrying
from opilio.crawl import retry
from opilio.crawl.adaptive.reschedule import Rescheduled, change_time, has_changed, reschedule
from opilio.crawl.alert import CrawledPage
from opilio.crawl.alerts import check_alerts
from opilio.crawl.claims import JobFacts, Reply, load_facts
from opilio.crawl.finished_job import FinishedJob, StoredResult
from opilio.crawl.history import Change, Values, changes, remembered
from opilio.crawl.lock_end import LateResult, LockEnds, LoggedCompletion, failed_event, retry_facts
from opilio.crawl.politeness import cool_down
from opilio.crawl.retry import Jitter
from opilio.crawl.submission import Submission
from opilio.errors import Refused
from opilio.ids import uuid7
from opilio.lock_rules import Accepted, Late, Repeated
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
    """The id of a result, and where its page is if it is not in the database."""

    result_id: UUID
    blob: str | None


class Seen(msgspec.Struct, frozen=True):
    """What a visit of an adaptive policy saw, and the next one."""

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
        clock: Clock | None = None,
    ) -> None:
        self._db = database
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
        if not sent.success or sent.not_modified or sent.raw_html is None:
            return False
        return self._pages.is_large(sent.raw_html)

    async def _submit_once(self, batch: Sequence[Submission]) -> list[Reply]:
        uploads = await self._upload(batch)

        async def work(session: Session) -> list[Reply]:
            facts = await load_facts(session, [s.claim for s in batch], self._clock.now())
            ends = LockEnds()
            visits = self._visits(facts, batch)
            replies = [self._apply(ends, facts, visits, s, uploads.get(i)) for i, s in enumerate(batch)]
            await ends.write(session, facts.now)
            if ends.to_check:
                await check_alerts(session, ends.to_check, facts.now)
            return replies

        return await self._db.transact(work, hot=True)

    async def _upload(self, batch: Sequence[Submission]) -> "dict[int, Upload | Refused]":
        """Large pages of accepted claims, side by side; a page that cannot be stored costs its own item only."""
        large = [i for i, sent in enumerate(batch) if self.needs_upload(sent)]
        if not large:
            return {}

        async def check(session: Session) -> list[int]:
            facts = await load_facts(session, [batch[i].claim for i in large], self._clock.now())
            return [i for i in large if isinstance(facts.check(batch[i].claim), Accepted)]

        accepted = await self._db.transact(check, hot=True)
        stored = await asyncio.gather(*(self._upload_one(batch[i]) for i in accepted))
        return dict(zip(accepted, stored, strict=True))

    async def _upload_one(self, sent: Submission) -> "Upload | Refused":
        assert sent.raw_html is not None
        result_id = uuid7()
        try:
            async with self._uploads:
                return Upload(result_id, await self._pages.put_page(result_id, sent.raw_html))
        except Exception as error:  # noqa: BLE001 - whatever the store says, only this item is refused
            _log.warning("submit.page_not_stored", job_id=str(sent.claim.job_id), error=str(error)[:300])
            return Refused(
                "unavailable",
                "the page could not be stored; submit again in %(seconds)s s",
                details={"retry_after": _RETRY_AFTER},
                seconds=_RETRY_AFTER,
            )

    def _visits(self, facts: JobFacts, batch: Sequence[Submission]) -> "dict[UUID, Seen]":
        """What adaptive policies saw and when they are visited next.

        For the whole batch at once: the rule is a third faster while its code and data stay in the processor's caches.
        """
        adaptive = [
            (sent, row)
            for sent in batch
            if sent.success
            and (row := facts.rows.get(sent.claim.job_id)) is not None
            and row["pool"] is not None
        ]
        return {row["job_id"]: self._adapt(row, sent) for sent, row in adaptive}

    def _apply(
        self,
        ends: LockEnds,
        facts: JobFacts,
        visits: "Mapping[UUID, Seen]",
        sent: Submission,
        upload: "Upload | Refused | None",
    ) -> Reply:
        match facts.check(sent.claim):
            case Accepted():
                if isinstance(upload, Refused):
                    return Reply(refusal=upload)
                row = facts.rows[sent.claim.job_id]
                if sent.success:
                    seen = visits.get(row["job_id"])
                    return self._succeed(ends, row, sent, upload or Upload(uuid7(), None), seen)
                return self._fail(ends, row, sent)
            case Repeated(answer):
                return Reply(data=answer.encode())
            case Late(refusal):
                ends.late.append(LateResult(sent.claim, refusal.message, _late_body(sent), facts.now))
                return Reply(refusal=refusal)
            case Refused() as refusal:
                return Reply(refusal=refusal)

    def _succeed(
        self, ends: LockEnds, row: Row, sent: Submission, upload: "Upload", seen: "Seen | None"
    ) -> Reply:
        result_id = upload.result_id
        decision = retry.succeed(retry_facts(row), row["at"], self._draw())
        before = _last_values(row)
        changed = changes(before, sent.values) if seen is None else seen.changes
        rescheduled = None if seen is None else seen.rescheduled
        if rescheduled is not None:
            decision = msgspec.structs.replace(decision, next_run_at=rescheduled.next_run_at)
        assert decision.next_run_at is not None
        stored = None if sent.not_modified else _stored_result(sent, upload)
        values = before if sent.not_modified else sent.values
        result: UUID | None = row["last_result_id"] if stored is None else result_id
        ends.changed += [(row, change) for change in changed]
        if row["any_alerts"] and stored is not None:
            ends.to_check.append(CrawledPage(row["policy_id"], row["url"], before, sent.values))
        body = _encode(
            DoneAnswer(
                result_id=result,
                job_id=row["job_id"],
                price=values.price,
                currency=values.currency,
                policy_next_run=decision.next_run_at,
            )
        )
        ends.finish(
            FinishedJob(
                row=row,
                decision=decision,
                by=f"bot:{sent.claim.bot_id}",
                reason="not modified" if sent.not_modified else "result accepted",
                event_type=events.JOB_COMPLETED,
                event=_completed_event(row, sent, values, [change.field for change in changed]),
                last_data=remembered(before, sent.values),
                result=stored,
                digest=sent.claim.digest,
                answer=_kept_answer(row, values) if sent.not_modified else None,
                html_hash=sent.html_hash,
                validators=sent.validators,
                rescheduled=rescheduled,
            )
        )
        return Reply(data=body, state=decision.state)

    def _adapt(self, row: Row, sent: Submission) -> "Seen":
        """The next visit of an adaptive policy."""
        changed = changes(_last_values(row), sent.values)
        saw_change = has_changed(
            row,
            sent.values,
            changed,
            sent.html_hash,
            not_modified=sent.not_modified,
            tolerance=self._tolerance,
        )
        at = change_time(row, sent.changed_at, sent.validators.last_modified) if saw_change else None
        return Seen(changed, reschedule(row, saw_change, at, (random.random(), random.random())))

    def _fail(self, ends: LockEnds, row: Row, sent: Submission) -> Reply:
        wait = self._cool(ends, row, sent)
        decision = retry.fail(retry_facts(row), row["at"], self._draw(), sent.error_code, wait)
        by = f"bot:{sent.claim.bot_id}"
        reason = f"{sent.error_code or 'failure'}: {sent.error_msg or 'no message'}"
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
                error=sent.error_msg,
                error_code=sent.error_code,
                digest=sent.claim.digest,
                answer=body,
            )
            return Reply(data=body, state=decision.state)
        assert decision.next_run_at is not None
        retryable = worth_retrying(sent.error_code)
        body = _encode(
            FailedAnswer(
                job_id=row["job_id"],
                retry_count=row["retry_count"],
                max_retries=row["max_retries"],
                message="no retries are left" if retryable else f"{sent.error_code} is not worth a retry",
                policy_next_run=decision.next_run_at,
            )
        )
        ends.finish(
            FinishedJob(
                row=row,
                decision=decision,
                by=by,
                reason=reason,
                event_type=events.JOB_FAILED,
                event=failed_event(row, decision, sent.error_msg, sent.error_code),
                error=sent.error_msg,
                error_code=sent.error_code,
                digest=sent.claim.digest,
                answer=body,
            )
        )
        return Reply(data=body, state=decision.state)

    def _cool(self, ends: LockEnds, row: Row, sent: Submission) -> timedelta:
        """RATE_LIMITED closes the host for all bots; the retry waits at least as long."""
        if sent.error_code != ErrorCode.RATE_LIMITED:
            return timedelta(0)
        now: datetime = row["at"]
        known, _ = ends.cooled.get(row["host_id"], (None, ""))
        until = known.until if known else row["cooling_until"]
        cooling = cool_down(now, until, row["strikes"], sent.retry_after)
        reason = f"{row['host']} answered RATE_LIMITED to {sent.claim.bot_id}"
        ends.cooled[row["host_id"]] = (cooling, reason)
        return cooling.until - now

    def _draw(self) -> Jitter:
        return Jitter(self._jitter, random.random())


def _without_repeats(submissions: Sequence[Submission]) -> list[list[int]]:
    """Positions in groups, so that no job is twice in one group."""
    if len({sent.claim.job_id for sent in submissions}) == len(submissions):
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


def _last_values(row: Row) -> Values:
    return Values(
        row["last_price"], row["last_currency"], row["last_title"], row["last_in_stock"], row["last_data"]
    )


def _stored_result(sent: Submission, upload: Upload) -> StoredResult:
    return StoredResult(
        result_id=upload.result_id,
        values=sent.values,
        data=sent.data,
        html_hash=sent.html_hash,
        duration=sent.crawl_duration,
        html_body=None if upload.blob else sent.raw_html,
        html_blob=upload.blob,
    )


def _kept_answer(row: Row, values: Values) -> bytes:
    """What the row of a job without a result does not say; the function `archived_answer` adds the rest."""
    return _encode({"price": values.price, "currency": values.currency, "result_id": row["last_result_id"]})


def _late_body(sent: Submission) -> dict[str, Any]:
    """A late submission as people will read it."""
    return {
        "success": sent.success,
        "price": sent.values.price,
        "currency": sent.values.currency,
        "title": sent.values.title,
        "in_stock": sent.values.in_stock,
        "data": sent.data,
        "html_hash": sent.html_hash,
        "raw_html": sent.raw_html,
        "crawl_duration": sent.crawl_duration,
        "error_msg": sent.error_msg,
        "error_code": sent.error_code,
    }


def _completed_event(
    row: Row, sent: Submission, values: Values, changed: list[str]
) -> LoggedCompletion | dict[str, list[str]] | None:
    """What the event says beyond the row of the job: of one with a result, the fields that changed."""
    if not sent.not_modified:
        return {"changed": changed} if changed else None
    return LoggedCompletion(
        bot_id=sent.claim.bot_id,
        result_id=row["last_result_id"],
        price=values.price,
        currency=values.currency,
        title=values.title,
        in_stock=values.in_stock,
        data=dict(values.data) if values.data else None,
        html_hash=sent.html_hash,
        crawl_duration=sent.crawl_duration,
        changed=changed,
        not_modified=True,
    )
