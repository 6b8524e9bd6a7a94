"""Decides what a result does to its task."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

from opilio.collector.config import Config
from opilio.collector.result import Result, retryable


class State(StrEnum):
    """OPEN until a final result; DONE and FAILED are final."""

    OPEN = "open"
    DONE = "done"
    FAILED = "failed"


class Effect(StrEnum):
    """What a result did to its task."""

    STARTED = "started"  # the crawler has begun: the time-out runs
    SETTLED = "settled"
    RETRIED = "retried"
    ADDED = "added"  # a further page of a finished task
    REPLACED = "replaced"  # another body of a result that was counted before
    REPEATED = "repeated"
    LATE = "late"  # of an attempt that a newer one replaced, or after the project was done


@dataclass(frozen=True, slots=True)
class Task:
    """The fields of a dispatched task that a decision needs."""

    platform: str
    job_id: str
    project_id: str | None
    state: State
    attempt: int
    max_attempts: int
    ready_at: datetime
    items_attempt: int | None = None  # the attempt whose items are counted: two attempts find the same items
    crawl_id: str | None = None  # the run of the crawler whose items are counted
    code: str | None = None
    message: str | None = None
    successful: int = 0  # counted items; zero while OPEN
    failed: int = 0
    skipped: int = 0


ResultKey: TypeAlias = tuple[int, str]  # attempt and cursor


@dataclass(frozen=True, slots=True)
class Recorded:
    """A result of a task that was received before."""

    attempt: int
    cursor: str
    success: bool
    usable: bool
    successful: int
    failed: int
    skipped: int
    counted: bool
    digests: tuple[str, ...] = ()

    @property
    def key(self) -> ResultKey:
        return self.attempt, self.cursor


@dataclass(frozen=True, slots=True)
class Decision:
    """The task after the result, and the result as it is recorded; None where nothing is recorded."""

    effect: Effect
    task: Task
    recorded: Recorded | None = None


def decide(
    task: Task,
    recorded: Mapping[ResultKey, Recorded],
    result: Result,
    config: Config,
    now: datetime,
    *,
    project_done: bool = False,
) -> Decision:
    """Finishes, retries, replaces, adds items, or changes nothing; a body seen before changes nothing.

    A crawler that crashed before its acknowledgement crawls again, so a result of the same attempt and cursor may come
    with another body: the newest one replaces the figures, but a failure never replaces a success.
    """
    if result.started:
        return Decision(Effect.STARTED, task)
    attempt = result.attempt or task.items_attempt or task.attempt
    before = recorded.get((attempt, result.cursor))
    if (before is not None and result.digest in before.digests) or _is_repeated_failure(
        task, recorded, result, now
    ):
        return Decision(Effect.REPEATED, task)
    if project_done:
        return _late(task, result, attempt, before)
    if task.state is not State.OPEN:
        return _already_finished(task, result, attempt, before)
    if result.usable:
        return _settle(task, result, attempt, before)
    if attempt < task.attempt:
        return _late(task, result, attempt, before)
    if attempt < task.max_attempts and retryable(result.code, result.successful, config.retryable_codes):
        return _retry(task, result, attempt, before, config, now)
    return _settle(task, result, attempt, before)


def _settle(
    task: Task, result: Result, attempt: int, before: Recorded | None, effect: Effect = Effect.SETTLED
) -> Decision:
    settled = replace(
        task,
        state=State.DONE if result.success else State.FAILED,
        items_attempt=attempt if result.success or result.items else None,
        crawl_id=result.crawl_id,
        code=result.code,
        message=result.message,
        successful=result.successful,
        failed=result.failed,
        skipped=result.skipped,
    )
    return Decision(effect, settled, _record(result, attempt, before, counted=True))


def _retry(
    task: Task, result: Result, attempt: int, before: Recorded | None, config: Config, now: datetime
) -> Decision:
    again = replace(
        task,
        attempt=attempt + 1,
        ready_at=now + config.wait_before(task.platform, attempt + 1),
        code=result.code,
        message=result.message,
    )
    return Decision(Effect.RETRIED, again, _record(result, attempt, before, counted=False))


def _is_repeated_failure(
    task: Task, recorded: Mapping[ResultKey, Recorded], result: Result, now: datetime
) -> bool:
    """Without an attempt number, an equal body is the same failure until the retry can have run."""
    if result.attempt is not None or result.usable or now >= task.ready_at:
        return False
    return any(result.digest in one.digests for one in recorded.values())


def _already_finished(task: Task, result: Result, attempt: int, before: Recorded | None) -> Decision:
    if before is not None and before.counted:
        if before.usable and not result.usable:
            return _late(task, result, attempt, before)
        return _replace(task, result, attempt, before)
    if task.state is State.FAILED and result.usable and not task.successful + task.failed:
        # Given up, for example after a time-out, but it has items after all.
        return _settle(task, result, attempt, before, Effect.REPLACED)
    if task.items_attempt in (None, attempt) and result.items and result.usable:
        return _add_page(task, result, attempt, before)
    return _late(task, result, attempt, before)


def _replace(task: Task, result: Result, attempt: int, before: Recorded) -> Decision:
    """The figures of the newest body instead of those of the one before."""
    changed = replace(
        task,
        state=State.DONE if result.success else State.FAILED,
        items_attempt=attempt if result.success or result.items else None,
        crawl_id=result.crawl_id or task.crawl_id,
        code=result.code,
        message=result.message,
        successful=task.successful - before.successful + result.successful,
        failed=task.failed - before.failed + result.failed,
        skipped=task.skipped - before.skipped + result.skipped,
    )
    return Decision(Effect.REPLACED, changed, _record(result, attempt, before, counted=True))


def _add_page(task: Task, result: Result, attempt: int, before: Recorded | None) -> Decision:
    longer = replace(
        task,
        items_attempt=attempt,
        successful=task.successful + result.successful,
        failed=task.failed + result.failed,
        skipped=task.skipped + result.skipped,
    )
    return Decision(Effect.ADDED, longer, _record(result, attempt, before, counted=True))


def _late(task: Task, result: Result, attempt: int, before: Recorded | None) -> Decision:
    """Kept, so that it is known when it comes again; what is counted stays as it is."""
    if before is not None:
        kept = replace(before, digests=_with(before, result))
    else:
        kept = _record(result, attempt, None, counted=False)
    return Decision(Effect.LATE, task, kept)


def _record(result: Result, attempt: int, before: Recorded | None, *, counted: bool) -> Recorded:
    return Recorded(
        attempt,
        result.cursor,
        result.success,
        result.usable,
        result.successful,
        result.failed,
        result.skipped,
        counted,
        _with(before, result),
    )


def _with(before: Recorded | None, result: Result) -> tuple[str, ...]:
    return (*(before.digests if before else ()), result.digest)
