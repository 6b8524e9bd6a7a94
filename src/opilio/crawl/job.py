"""The job's state machine, as data.

    PENDING ──pull──▶ LOCKED ──submit ok──▶ DONE
       ▲                │ ├──submit fail, retries left──▶ PENDING
       │                │ ├──submit fail, none left──▶ FAILED
       │                │ └──TTL passed──▶ EXPIRED ──retries left──▶ PENDING
       └────────────────┘  release, reset

docs/explanation/job-lifecycle.md draws the same table; a test compares the two, and the database's guards.
"""

from datetime import datetime, timedelta
from enum import StrEnum

from opilio.errors import Conflict


class State(StrEnum):
    PENDING = "pending"
    LOCKED = "locked"
    DONE = "done"
    FAILED = "failed"
    EXPIRED = "expired"


class Cause(StrEnum):
    PULL = "pull"
    SUCCEED = "succeed"
    RETRY = "retry"
    FAIL = "fail"
    EXPIRE = "expire"
    RECOVER = "recover"
    RELEASE = "release"
    RESET = "reset"


TRANSITIONS: dict[tuple[State, Cause], State] = {
    (State.PENDING, Cause.PULL): State.LOCKED,
    (State.LOCKED, Cause.SUCCEED): State.DONE,
    (State.LOCKED, Cause.RETRY): State.PENDING,
    (State.LOCKED, Cause.FAIL): State.FAILED,
    (State.LOCKED, Cause.EXPIRE): State.EXPIRED,
    (State.EXPIRED, Cause.RECOVER): State.PENDING,
    (State.LOCKED, Cause.RELEASE): State.PENDING,
    (State.LOCKED, Cause.RESET): State.PENDING,
    (State.FAILED, Cause.RESET): State.PENDING,
    (State.EXPIRED, Cause.RESET): State.PENDING,
}
ACTIVE = frozenset({State.PENDING, State.LOCKED})
# A lock can be extended again and again, but not for ever: a bot that hangs must lose its job one day.
MAX_EXTENSION = 10


def apply(state: State, cause: Cause) -> State:
    """The state after `cause`, or a refusal that says what is possible."""
    try:
        return TRANSITIONS[state, cause]
    except KeyError:
        possible = ", ".join(sorted({str(s) for s, c in TRANSITIONS if c == cause}))
        raise Conflict(
            f"the job is {state}; {cause} is possible for {possible} only", code="invalid_state"
        ) from None


def retry_priority(base: int, retry_count: int) -> int:
    """Each retry costs a tenth of the base, so that fresh work goes first; never below 1."""
    return max(1, base * (10 - min(retry_count, 10)) // 10)


def extended_until(now: datetime, locked_at: datetime, ttl: timedelta) -> datetime:
    """The new end of a lock at a heartbeat."""
    return min(now + ttl, locked_at + MAX_EXTENSION * ttl)
