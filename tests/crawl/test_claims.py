"""What a submission is worth against the job it speaks of: every case, as a table."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.crawl.job import State
from opilio.errors import Refused
from opilio.lock_rules import Accepted, Claim, ClaimStatus, JobLock, Late, PastLock, Repeated, check

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
JOB, OLD, NEW = uuid4(), uuid4(), uuid4()
SAID, OTHER = b"said", b"other"
ALIVE, OVER = NOW + timedelta(minutes=1), NOW - timedelta(seconds=1)


def claim(bot: str = "a", token: UUID | None = NEW, said: bytes = SAID) -> Claim:
    return Claim(bot, JOB, token, said)


def locked(bot: str = "a", token: UUID = NEW, until: datetime = ALIVE) -> JobLock:
    return JobLock(State.LOCKED, bot, token, until)


def ended(
    state: State, bot: str = "a", token: UUID = NEW, said: bytes | None = SAID, answer: str | None = "first"
) -> JobLock:
    return JobLock(state, bot, token, ALIVE, said, answer)


PENDING = JobLock(State.PENDING, None, None, None)


def swept(bot: str = "a", token: UUID = OLD) -> PastLock:
    return PastLock(bot, token, lost=True, digest=None, answer=None)


def failed(bot: str = "a", token: UUID = OLD, said: bytes = SAID) -> PastLock:
    return PastLock(bot, token, lost=False, digest=said, answer="first")


def word(judgement: ClaimStatus) -> str:
    match judgement:
        case Accepted():
            return "accepted"
        case Repeated(answer):
            return f"repeated {answer}"
        case Late(refusal):
            return f"late {refusal.code}"
        case Refused() as refusal:
            return refusal.code


CASES = [
    ("no such job", claim(), None, [], "job_not_found"),
    ("the holder, by token", claim(), locked(), [], "accepted"),
    ("the holder, by its id alone", claim(token=None), locked(), [], "accepted"),
    ("another bot with the right token", claim(bot="b"), locked(), [], "not_assigned"),
    ("another bot by its id alone", claim(bot="b", token=None), locked(), [], "not_assigned"),
    ("the holder with a token that never was", claim(token=uuid4()), locked(), [], "not_assigned"),
    ("after the TTL, before the sweeper", claim(), locked(until=OVER), [], "late lock_expired"),
    ("at the very end of the TTL", claim(), locked(until=NOW), [], "late lock_expired"),
    ("after the TTL, by its id alone", claim(token=None), locked(until=OVER), [], "late lock_expired"),
    ("after the sweeper", claim(token=OLD), PENDING, [swept()], "late lock_expired"),
    ("after the sweeper, by its id alone", claim(token=None), PENDING, [swept()], "late lock_expired"),
    ("superseded by another bot", claim(token=OLD), locked(bot="b"), [swept()], "late lock_expired"),
    ("superseded by itself", claim(token=OLD), locked(), [swept()], "late lock_expired"),
    ("another bot finished it meanwhile", claim(token=OLD), ended(State.DONE, bot="b"), [swept()], "late lock_expired"),
    ("it finished it itself with a newer lock", claim(token=OLD, said=OTHER), ended(State.DONE), [swept()], "late lock_expired"),
    ("after the last expiry", claim(), ended(State.EXPIRED, said=None, answer=None), [], "late lock_expired"),
    ("foreign after the last expiry", claim(bot="b"), ended(State.EXPIRED, said=None, answer=None), [], "not_assigned"),
    ("the same success again", claim(), ended(State.DONE), [], "repeated first"),
    ("the same success again, by its id alone", claim(token=None), ended(State.DONE), [], "repeated first"),
    ("the same last failure again", claim(), ended(State.FAILED), [], "repeated first"),
    ("another body for a done job", claim(said=OTHER), ended(State.DONE), [], "invalid_state"),
    ("another body for a failed job", claim(said=OTHER), ended(State.FAILED), [], "invalid_state"),
    ("somebody else's words, for a done job", claim(bot="b"), ended(State.DONE), [], "not_assigned"),
    ("the same failure again, job waits", claim(token=OLD), PENDING, [failed()], "repeated first"),
    ("the same failure again, by its id alone", claim(token=None), PENDING, [failed()], "repeated first"),
    ("the same failure again, job re-locked", claim(token=OLD), locked(bot="b"), [failed()], "repeated first"),
    ("the same failure again, job done by then", claim(token=OLD), ended(State.DONE, bot="b"), [failed()], "repeated first"),
    ("another body after its failure", claim(token=OLD, said=OTHER), PENDING, [failed()], "invalid_state"),
    ("another body after its failure, re-locked", claim(token=OLD, said=OTHER), locked(bot="b"), [failed()], "late lock_expired"),
    ("never held, job waits", claim(bot="c"), PENDING, [swept(), failed("b")], "not_assigned"),
    ("the holder, though it once lost this job", claim(), locked(), [swept(), failed()], "accepted"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "said", "job", "past", "verdict"), CASES, ids=[case[0] for case in CASES])
def test_every_case(what: str, said: Claim, job: JobLock | None, past: list[PastLock], verdict: str) -> None:
    assert word(check(said, job, past, NOW)) == verdict


TOKENS = st.sampled_from([OLD, NEW, UUID(int=7)])
BOTS = st.sampled_from(["a", "b"])
PAST = st.lists(
    st.builds(PastLock, BOTS, TOKENS, st.booleans(), st.sampled_from([None, SAID]), st.sampled_from([None, "first"])), max_size=3
)  # fmt: skip
JOBS = st.one_of(
    st.none(),
    st.just(PENDING),
    st.builds(locked, BOTS, TOKENS, st.sampled_from([ALIVE, OVER, NOW])),
    st.builds(
        ended,
        st.sampled_from([State.DONE, State.FAILED, State.EXPIRED]),
        BOTS,
        TOKENS,
        st.sampled_from([SAID, None]),
    ),
)


@given(st.builds(claim, BOTS, st.one_of(st.none(), TOKENS), st.sampled_from([SAID, OTHER])), JOBS, PAST)
def test_only_a_living_lock_of_ones_own_counts(
    said: Claim, job: JobLock | None, past: list[PastLock]
) -> None:
    verdict = check(said, job, past, NOW)
    holds = (
        job is not None
        and job.state is State.LOCKED
        and job.locked_by == said.bot_id
        and said.lock_token in (None, job.lock_token)
        and job.locked_until == ALIVE
    )
    assert isinstance(verdict, Accepted) == holds


@given(st.builds(claim, BOTS, st.one_of(st.none(), TOKENS), st.sampled_from([SAID, OTHER])), JOBS, PAST)
def test_no_bot_gets_another_bots_stored_response(
    said: Claim, job: JobLock | None, past: list[PastLock]
) -> None:
    verdict = check(said, job, past, NOW)
    if isinstance(verdict, Repeated):
        assert job is not None
        own = [lock for lock in past if lock.bot_id == said.bot_id and lock.answer is not None]
        assert own or job.locked_by == said.bot_id
        assert said.digest == SAID
