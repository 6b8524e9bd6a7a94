"""How the end of a lock reads: in the timeline, in the event, in the queue. No I/O."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from opilio.adapters.postgres import Row
from opilio.contracts import events
from opilio.crawl.history import Values
from opilio.crawl.job import State
from opilio.crawl.lock_end import Ledger, Return, Step
from opilio.crawl.retry import Attempt, Verdict
from opilio.crawl.submission import Submission


def attempt_of(row: Row) -> Attempt:
    return Attempt(
        base_priority=row["base_priority"],
        retry_count=row["retry_count"],
        max_retries=0 if row["deleted_at"] else row["max_retries"],  # nobody waits for a deleted policy
        frequency=timedelta(hours=row["frequency_hours"]),
        retry_backoff=timedelta(minutes=row["retry_backoff_minutes"]),
        failure_count=row["failure_count"],
        error_rate=row["error_rate"],
    )


def free_host(ledger: Ledger, row: Row) -> None:
    """A host at its cap may be visited again; one without a gate was never closed."""
    if row["behind_gate"]:
        ledger.freed_hosts.add(row["host_id"])


def give_back(
    ledger: Ledger,
    row: Row,
    now: datetime,
    by: str,
    reason: str,
    digest: bytes | None = None,
    answer: bytes | None = None,
    *,
    afresh: bool = False,
) -> None:
    """A locked job returns to the queue at once; `afresh` forgives its retries."""
    ledger.steps += lock_steps(row, State.PENDING, now, by, reason, digest, answer)
    retries = 0 if afresh else row["retry_count"]
    priority = row["base_priority"] if afresh else row["priority"]
    ledger.returned.append(Return(row["job_id"], priority, retries, now))
    free_host(ledger, row)


def lock_steps(
    row: Row,
    to: State,
    now: datetime,
    by: str,
    reason: str,
    digest: bytes | None = None,
    answer: bytes | str | None = None,
) -> list[Step]:
    """The lock and its end, as the timeline will tell them once the row has forgotten."""
    job_id, bot = row["job_id"], row["locked_by"]
    return [
        Step(job_id, State.PENDING, State.LOCKED, row["locked_at"], f"bot:{bot}", "pulled"),
        Step(job_id, State.LOCKED, to, now, by, reason, bot, row["lock_token"], digest, answer),
    ]


def returned(row: Row, verdict: Verdict, error: str | None, code: str | None) -> Return:
    assert verdict.run_at is not None
    return Return(row["job_id"], verdict.priority, verdict.retry_count, verdict.run_at, error, code)


def last_values(row: Row) -> Values:
    return Values(
        row["last_price"], row["last_currency"], row["last_title"], row["last_in_stock"], row["last_data"]
    )


def spoken(sent: Submission) -> dict[str, Any]:
    """A late submission as a person will read it."""
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


def completed(row: Row, sent: Submission, result_id: UUID, changed: list[str]) -> events.JobCompleted:
    return events.JobCompleted(
        job_id=row["job_id"],
        policy_id=row["policy_id"],
        result_id=result_id,
        url=row["url"],
        price=sent.values.price,
        currency=sent.values.currency,
        title=sent.values.title,
        in_stock=sent.values.in_stock,
        data=dict(sent.data) if sent.data else None,
        html_hash=sent.html_hash,
        crawl_duration=sent.crawl_duration,
        crawled_at=row["at"],
        bot_id=sent.claim.bot_id,
        changed=changed,
    )


def failed(row: Row, verdict: Verdict, error: str | None, code: str | None) -> events.JobFailed:
    assert verdict.next_run_at is not None
    return events.JobFailed(
        job_id=row["job_id"],
        policy_id=row["policy_id"],
        url=row["url"],
        reason="expired" if verdict.state is State.EXPIRED else "failed",
        error_code=code,
        error_msg=error,
        retry_count=row["retry_count"],
        max_retries=row["max_retries"],
        failure_count=verdict.failure_count,
        policy_next_run=verdict.next_run_at,
        bot_id=row["locked_by"],
    )
