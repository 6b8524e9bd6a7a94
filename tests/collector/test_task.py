from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.collector.config import Config
from opilio.collector.result import retryable
from opilio.collector.task import Effect, State, decide
from tests.collector.samples import NOW, a_failure, a_result, a_task

CONFIG = Config(backoff_by_platform={"tiktok": timedelta(seconds=10)})


@pytest.mark.parametrize(
    ("code", "successful", "again"),
    [
        *[(code, 0, True) for code in ("SEARCH_FAILED", "RATE_LIMITED", "TIMEOUT", "NETWORK_ERROR")],
        *[(code, 0, True) for code in ("DNS_ERROR", "CONNECTION_REFUSED", "STORAGE_ERROR", "UPLOAD_FAILED")],
        *[(code, 0, False) for code in ("RATE_LIMITED_PERMANENT", "AUTH_FAILED", "INVALID_KEYWORD", "BLOCKED")],
        ("CRAWL_PARTIAL", 0, True),
        ("CRAWL_PARTIAL", 5, False),
        ("PARSE_ERROR", 0, False),
        ("NEVER_HEARD_OF", 0, False),
        (None, 0, False),
    ],
)  # fmt: skip
def test_codes_decide_retries(code, successful, again):
    assert retryable(code, successful) is again


def test_a_success_settles():
    decision = decide(a_task(), a_result(), CONFIG, NOW)
    assert (decision.effect, decision.task.state) == (Effect.SETTLED, State.DONE)
    assert decision.tally.tasks_done == 1


def test_a_retryable_failure_goes_out_again_and_counts_nothing():
    decision = decide(a_task(), a_failure(), CONFIG, NOW)
    assert (decision.effect, decision.tally) == (Effect.RETRIED, None)
    assert (decision.task.attempt, decision.task.ready_at) == (2, NOW + timedelta(seconds=10))
    second = decide(decision.task, a_failure(attempt=2), CONFIG, NOW)
    assert (second.task.attempt, second.task.ready_at) == (3, NOW + timedelta(seconds=20))
    last = decide(second.task, a_failure(attempt=3), CONFIG, NOW)
    assert (last.effect, last.task.state, last.tally.tasks_errors) == (Effect.SETTLED, State.FAILED, 1)


def test_the_same_failure_again_is_no_second_retry():
    task = decide(a_task(), a_failure(), CONFIG, NOW).task
    assert decide(task, a_failure(), CONFIG, NOW).effect is Effect.LATE
    nameless = a_failure(attempt=None)
    task = decide(a_task(), nameless, CONFIG, NOW).task
    assert decide(task, nameless, CONFIG, NOW).effect is Effect.REPEATED
    assert decide(task, nameless, CONFIG, NOW + timedelta(seconds=11)).effect is Effect.RETRIED


def test_a_partial_crawl_keeps_what_it_got():
    decision = decide(a_task(), a_failure("CRAWL_PARTIAL", successful=5, failed=4), CONFIG, NOW)
    assert decision.effect is Effect.SETTLED
    assert decision.tally.numbers == (0, 1, 5, 4, 5, 0, 0)


def test_a_late_success_beats_the_attempt_under_way():
    task = decide(a_task(), a_failure(), CONFIG, NOW).task
    decision = decide(task, a_result(attempt=1, cursor="late"), CONFIG, NOW)
    assert (decision.effect, decision.task.items_attempt) == (Effect.SETTLED, 1)
    assert decide(decision.task, a_result(attempt=2), CONFIG, NOW).effect is Effect.LATE


def test_pages_of_one_attempt_add_items_and_no_task():
    task = decide(a_task(), a_result(cursor="1"), CONFIG, NOW).task
    page = decide(task, a_result(cursor="2"), CONFIG, NOW)
    assert (page.effect, page.tally.tasks_done, page.tally.items_actual) == (Effect.ADDED, 0, 48)


def test_what_was_given_up_is_still_counted_when_it_comes():
    """A time-out is the last word for the task, but what its crawler brings later is analysed: so it is counted."""
    gone = a_failure("TIMEOUT", attempt=3, cursor="timeout")
    task = decide(a_task(attempt=3), gone, CONFIG, NOW).task
    assert task.state is State.FAILED
    late = decide(task, a_result(attempt=3), CONFIG, NOW)
    assert (late.effect, late.tally.numbers) == (Effect.ADDED, (0, 0, 48, 2, 48, 0, 0))
    assert decide(late.task, a_result(attempt=2), CONFIG, NOW).effect is Effect.LATE


def test_a_task_without_a_project_counts_nowhere():
    assert decide(a_task(project_id=None), a_result(), CONFIG, NOW).tally is None


results = st.builds(
    lambda good, attempt, cursor: (
        a_result(attempt=attempt, cursor=cursor) if good else a_failure(attempt=attempt, cursor=cursor)
    ),
    st.booleans(),
    st.none() | st.integers(1, 4),
    st.sampled_from(["", "c"]),
)


@given(st.lists(results, max_size=12))
def test_a_task_is_settled_once_and_a_repetition_changes_nothing(arriving):
    task, settled = a_task(), 0
    for result in arriving:
        decision = decide(task, result, CONFIG, NOW)
        again = decide(decision.task, result, CONFIG, NOW)
        assert again.task == decision.task
        assert again.effect is not Effect.RETRIED
        settled += decision.effect is Effect.SETTLED
        if decision.effect is Effect.RETRIED:
            assert decision.task.attempt == task.attempt + 1 or result.attempt > task.attempt
        assert decision.task.attempt <= max(task.max_attempts, task.attempt)
        task = decision.task
    assert settled == (task.state is not State.OPEN)
