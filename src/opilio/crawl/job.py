"""The job's state machine, as data.

    PENDING ──pull──▶ LOCKED ──submit ok──▶ DONE
       ▲                │ ├──submit fail, retries left──▶ PENDING
       │                │ ├──submit fail, none left──▶ FAILED
       │                │ └──TTL passed──▶ EXPIRED ──retries left──▶ PENDING
       └────────────────┘  release, reset

Every transition is applied from this table: pull, submit, heartbeat and release, expire, operator actions.
docs/explanation/job-lifecycle.md draws the same table; a test compares the two with the database's constraints.
"""

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
# How many times its TTL a lock can live through heartbeats: a bot that hangs must lose its job.
MAX_EXTENSION = 10


def apply(state: State, *causes: Cause) -> State:
    """The state after `causes`, one after another; a transition that the table lacks is refused."""
    for cause in causes:
        after = TRANSITIONS.get((state, cause))
        if after is None:
            possible = ", ".join(sorted({str(s) for s, c in TRANSITIONS if c == cause}))
            raise Conflict(
                "the job is %(state)s; %(cause)s is possible for %(possible)s only",
                code="invalid_state",
                state=str(state),
                cause=str(cause),
                possible=possible,
            )
        state = after
    return state


def retry_priority(base: int, retry_count: int) -> int:
    """Each retry costs a tenth of the base, so that new jobs go first; never below 1."""
    return max(1, base * (10 - min(retry_count, 10)) // 10)
