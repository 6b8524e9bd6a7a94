"""What becomes of a task when a result of it comes in."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from opilio.collector import tally as counting
from opilio.collector.config import Config
from opilio.collector.result import Result, retryable
from opilio.collector.tally import Tally


class State(StrEnum):
    """OPEN until the last word; DONE and FAILED are for good."""

    OPEN = "open"
    DONE = "done"
    FAILED = "failed"


class Effect(StrEnum):
    """What one result did."""

    SETTLED = "settled"
    RETRIED = "retried"
    ADDED = "added"  # a further page of a settled task
    REPEATED = "repeated"
    LATE = "late"  # of an attempt that another one has overtaken


@dataclass(frozen=True, slots=True)
class Task:
    """A dispatched task, as far as decisions need it."""

    platform: str
    job_id: str
    project_id: str | None
    state: State
    attempt: int
    max_attempts: int
    ready_at: datetime
    settled_by: str | None = None
    items_attempt: int | None = None  # whose items are counted: two attempts find the same things
    retried_for: str | None = None
    code: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The task as it is from now on, and what the project's counters gain."""

    effect: Effect
    task: Task
    tally: Tally | None = None


def decide(task: Task, result: Result, config: Config, now: datetime) -> Decision:
    """Settles, retries, adds, or finds that there is nothing to do. The same result decides the same again."""
    if task.state is not State.OPEN:
        return _after_the_last_word(task, result)
    attempt = result.attempt or task.attempt
    if result.usable:
        return _settle(task, result, attempt)
    if attempt < task.attempt:
        return Decision(Effect.LATE, task)
    if _is_repeated_failure(task, result, now):
        return Decision(Effect.REPEATED, task)
    if attempt < task.max_attempts and retryable(result.code, result.successful):
        return _retry(task, result, attempt, config, now)
    return _settle(task, result, attempt)


def _settle(task: Task, result: Result, attempt: int) -> Decision:
    settled = replace(
        task,
        state=State.DONE if result.success else State.FAILED,
        settled_by=result.identity,
        items_attempt=attempt if result.success or result.items else None,
        code=result.code,
        message=result.message,
    )
    return Decision(Effect.SETTLED, settled, _tally(settled, result, settles=True))


def _retry(task: Task, result: Result, attempt: int, config: Config, now: datetime) -> Decision:
    again = replace(
        task,
        attempt=attempt + 1,
        ready_at=now + config.wait_before(task.platform, attempt + 1),
        retried_for=result.identity,
        code=result.code,
        message=result.message,
    )
    return Decision(Effect.RETRIED, again)


def _is_repeated_failure(task: Task, result: Result, now: datetime) -> bool:
    """Without an attempt to tell by: the same body is the same failure until the retry can have been tried."""
    return result.attempt is None and result.identity == task.retried_for and now < task.ready_at


def _after_the_last_word(task: Task, result: Result) -> Decision:
    if result.identity == task.settled_by:
        # Counted again in case the first time died between the two stores: the state knows better.
        return Decision(Effect.REPEATED, task, _tally(task, result, settles=True))
    attempt = result.attempt or task.items_attempt or task.attempt
    if task.items_attempt not in (None, attempt) or not result.items:
        return Decision(Effect.LATE, task)
    return Decision(Effect.ADDED, replace(task, items_attempt=attempt), _tally(task, result, settles=False))


def _tally(task: Task, result: Result, *, settles: bool) -> Tally | None:
    if task.project_id is None:
        return None
    return counting.of_result(task.project_id, result, settles=settles)
