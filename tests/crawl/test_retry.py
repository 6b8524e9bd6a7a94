"""What becomes of a job whose lock ended, and of the policy behind it."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.backoff import doubling, jittered
from opilio.contracts.codes import CODES, Category, worth_retrying
from opilio.crawl.job import State, retry_priority
from opilio.crawl.retry import RetryFacts, expire, fail, next_run, succeed

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NO_JITTER = 0.0
NO_WAIT = timedelta(0)


def attempt(**fields: object) -> RetryFacts:
    facts = {
        "base_priority": 50, "retry_count": 0, "max_retries": 3, "frequency": timedelta(hours=24),
        "retry_backoff": timedelta(minutes=5), "failure_count": 0, "error_rate": 0.0,
    }  # fmt: skip
    return RetryFacts(**(facts | fields))  # type: ignore[arg-type]


ATTEMPTS = st.builds(
    RetryFacts,
    base_priority=st.integers(0, 100),
    retry_count=st.integers(0, 100),
    max_retries=st.integers(0, 100),
    frequency=st.timedeltas(timedelta(microseconds=1), timedelta(days=3660)),
    retry_backoff=st.timedeltas(timedelta(microseconds=1), timedelta(days=3660)),
    failure_count=st.integers(0, 2**31 - 2),
    error_rate=st.floats(0, 1),
)
JITTERS = st.floats(0, 1)


def test_backoff_doubles_up_to_the_frequency() -> None:
    waits = [doubling(timedelta(minutes=5), n, timedelta(hours=1)) for n in range(1, 7)]
    assert [wait.total_seconds() / 60 for wait in waits] == [5, 10, 20, 40, 60, 60]


def test_backoff_counts_from_one() -> None:
    with pytest.raises(ValueError, match="counted from 1"):
        doubling(timedelta(minutes=5), 0, timedelta(hours=1))


@given(
    st.timedeltas(timedelta(0), timedelta(days=3660)), st.integers(1, 2**31), st.timedeltas(timedelta(0), timedelta(days=3660))
)  # fmt: skip
def test_backoff_never_exceeds_its_ceiling_and_never_shrinks(
    base: timedelta, n: int, ceiling: timedelta
) -> None:
    assert timedelta(0) <= doubling(base, n, ceiling) <= doubling(base, n + 1, ceiling) <= ceiling


@given(st.timedeltas(timedelta(0), timedelta(days=3660)), JITTERS)
def test_jitter_only_ever_adds_its_share(wait: timedelta, jitter: float) -> None:
    assert wait <= jittered(wait, jitter) <= wait * (1 + jitter) + timedelta(microseconds=1)


def test_success_runs_again_after_the_frequency() -> None:
    assert next_run(24, NOW.timestamp(), NO_JITTER) == NOW + timedelta(hours=24)
    assert succeed(0.5) == pytest.approx(0.4)


@given(ATTEMPTS, JITTERS)
def test_success_spreads_by_at_most_its_share(facts: RetryFacts, jitter: float) -> None:
    late = next_run(facts.frequency / timedelta(hours=1), NOW.timestamp(), jitter) - NOW - facts.frequency
    assert timedelta(0) <= late <= facts.frequency * jitter + timedelta(microseconds=1)


def test_a_failure_is_tried_again_later_and_at_lower_priority() -> None:
    waits, priorities = [], []
    facts = attempt()
    for retries in range(3):
        verdict = fail(attempt(retry_count=retries), NOW, NO_JITTER, "TIMEOUT", NO_WAIT)
        assert verdict.state is State.PENDING
        assert verdict.retry_count == retries + 1
        assert verdict.run_at is not None
        waits.append((verdict.run_at - NOW).total_seconds() / 60)
        priorities.append(verdict.priority)
        assert verdict.next_run_at is None
        assert verdict.failure_count == facts.failure_count
    assert waits == [5, 10, 20]
    assert priorities == [45, 40, 35]


def test_the_last_failure_backs_the_policy_off() -> None:
    backoffs = []
    for failures in range(4):
        verdict = fail(attempt(retry_count=3, failure_count=failures), NOW, NO_JITTER, None, NO_WAIT)
        assert verdict.state is State.FAILED
        assert verdict.failure_count == failures + 1
        assert verdict.next_run_at is not None
        backoffs.append((verdict.next_run_at - NOW).total_seconds() / 60)
    assert backoffs == [5, 10, 20, 40]


def test_a_policy_without_retries_fails_at_once() -> None:
    assert fail(attempt(max_retries=0), NOW, NO_JITTER, "TIMEOUT", NO_WAIT).state is State.FAILED


@pytest.mark.parametrize("category", list(Category))
def test_codes_decide_retries(category: Category) -> None:
    hopeless = category in {Category.CONTENT, Category.PARSING, Category.MEDIA}
    for code in CODES[category]:
        assert worth_retrying(code) is not hopeless
        verdict = fail(attempt(), NOW, NO_JITTER, code, NO_WAIT)
        assert verdict.state is (State.FAILED if hopeless else State.PENDING)


@pytest.mark.parametrize("code", [None, "SOMETHING_NEW", "timeout"])
def test_an_unknown_code_is_generic_and_retried(code: str | None) -> None:
    assert fail(attempt(), NOW, NO_JITTER, code, NO_WAIT).state is State.PENDING


def test_all_21_codes_are_known() -> None:
    assert sum(map(len, CODES.values())) == 21


def test_a_host_that_asks_for_time_gets_it() -> None:
    verdict = fail(attempt(), NOW, NO_JITTER, "RATE_LIMITED", timedelta(hours=2))
    assert verdict.run_at == NOW + timedelta(hours=2)


def test_expiry_counts_as_a_retry() -> None:
    verdict = expire(attempt(retry_count=1), NOW, NO_JITTER)
    assert (verdict.state, verdict.retry_count) == (State.PENDING, 2)
    assert verdict.run_at == NOW + timedelta(minutes=10)


def test_expiry_without_retries_left_is_final() -> None:
    verdict = expire(attempt(retry_count=3, failure_count=1), NOW, NO_JITTER)
    assert verdict.state is State.EXPIRED
    assert verdict.failure_count == 2
    assert verdict.next_run_at == NOW + timedelta(minutes=10)


@given(ATTEMPTS, JITTERS, st.sampled_from([None, "TIMEOUT", "PARSE_ERROR"]))
def test_whatever_happens_stays_within_bounds(facts: RetryFacts, jitter: float, code: str | None) -> None:
    assert 0 <= succeed(facts.error_rate) <= 1
    for verdict in (fail(facts, NOW, jitter, code, NO_WAIT), expire(facts, NOW, jitter)):
        assert (verdict.run_at is None) is not (verdict.next_run_at is None), (
            "either the job or the policy waits"
        )
        assert 0 <= verdict.error_rate <= 1
        if verdict.retried:
            assert 1 <= verdict.priority <= 100
            assert verdict.retry_count == facts.retry_count + 1 <= facts.max_retries
            assert verdict.run_at is not None
            longest = facts.frequency * (1 + jitter) + timedelta(microseconds=1)
            assert NOW <= verdict.run_at <= NOW + longest
        else:
            assert verdict.next_run_at is not None
            assert NOW <= verdict.next_run_at <= NOW + facts.frequency


def test_each_retry_costs_a_tenth_of_the_base() -> None:
    assert [retry_priority(80, n) for n in range(5)] == [80, 72, 64, 56, 48]


@given(st.integers(0, 100), st.integers(0, 1000))
def test_retry_priority_falls_but_never_below_one(base: int, retries: int) -> None:
    assert 1 <= retry_priority(base, retries + 1) <= retry_priority(base, retries) <= max(1, base)
