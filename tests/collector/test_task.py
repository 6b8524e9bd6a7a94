from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.collector.config import Config
from opilio.collector.result import retryable
from opilio.collector.tally import Tally, task_tally
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


class Received:
    """A task, and the results it has received, in order."""

    def __init__(self, **task):
        self.task, self.recorded = a_task(**task), {}

    def get(self, result, now=NOW, **more):
        before = task_tally(self.task)
        decision = decide(self.task, self.recorded, result, CONFIG, now, **more)
        self.task = decision.task
        if decision.recorded is not None:
            self.recorded[decision.recorded.key] = decision.recorded
        self.gain = task_tally(self.task) - before
        return decision.effect


def test_a_success_settles():
    task = Received()
    assert task.get(a_result()) is Effect.SETTLED
    assert task.task.state is State.DONE
    assert task.gain == Tally(tasks_done=1, items_actual=48, items_errors=2, analyze_total=48)


def test_a_retryable_failure_goes_out_again_and_counts_nothing():
    task = Received()
    assert task.get(a_failure(failed=3)) is Effect.RETRIED
    assert not task.gain
    assert (task.task.attempt, task.task.ready_at) == (2, NOW + timedelta(seconds=10))
    task.get(a_failure(attempt=2))
    assert (task.task.attempt, task.task.ready_at) == (3, NOW + timedelta(seconds=20))
    assert task.get(a_failure(attempt=3)) is Effect.SETTLED
    assert (task.task.state, task.gain) == (State.FAILED, Tally(tasks_errors=1))


def test_the_same_failure_again_is_no_second_retry():
    task = Received()
    task.get(a_failure())
    assert task.get(a_failure()) is Effect.REPEATED
    assert task.get(a_failure(digest="other")) is Effect.LATE
    nameless = a_failure(attempt=None)
    task = Received()
    task.get(nameless)
    assert task.get(nameless) is Effect.REPEATED
    assert task.get(nameless, NOW + timedelta(seconds=11)) is Effect.RETRIED


def test_a_partial_crawl_keeps_what_it_got():
    task = Received()
    assert task.get(a_failure("CRAWL_PARTIAL", successful=5, failed=4)) is Effect.SETTLED
    assert task.gain == Tally(tasks_errors=1, items_actual=5, items_errors=4, analyze_total=5)


def test_a_late_success_beats_the_attempt_under_way():
    task = Received()
    task.get(a_failure())
    assert task.get(a_result(attempt=1, cursor="late")) is Effect.SETTLED
    assert task.task.items_attempt == 1
    assert task.get(a_result(attempt=2)) is Effect.LATE


def test_pages_of_one_attempt_add_items_and_no_task():
    task = Received()
    task.get(a_result(cursor="1"))
    assert task.get(a_result(cursor="2")) is Effect.ADDED
    assert task.gain == Tally(items_actual=48, items_errors=2, analyze_total=48)


def test_a_task_that_was_given_up_is_done_when_its_result_comes_after_all():
    task = Received(attempt=3)
    task.get(a_failure("TIMEOUT", attempt=3, cursor="timeout"))
    assert task.task.state is State.FAILED
    assert task.get(a_result(attempt=3)) is Effect.REPLACED
    assert (task.task.state, task.gain) == (
        State.DONE,
        Tally(tasks_done=1, tasks_errors=-1, items_actual=48, items_errors=2, analyze_total=48),
    )
    assert task.get(a_result(attempt=2)) is Effect.LATE


@pytest.mark.parametrize("attempt", [None, 1])
def test_the_newest_body_replaces_the_figures_and_a_body_seen_before_changes_nothing(attempt):
    first, second = (
        a_result(attempt=attempt, successful=good, failed=0, digest=name)
        for good, name in ((173, "a"), (48, "b"))
    )
    task = Received()
    assert task.get(first) is Effect.SETTLED
    assert task.get(second) is Effect.REPLACED
    assert task.gain == Tally(items_actual=-125, analyze_total=-125)
    assert task.get(first) is Effect.REPEATED
    assert task.get(second) is Effect.REPEATED
    assert task.task.successful == 48


def test_a_failure_never_replaces_a_success_but_a_success_replaces_a_failure():
    task = Received()
    task.get(a_result())
    assert task.get(a_failure("BLOCKED", digest="f")) is Effect.LATE
    assert task.task.state is State.DONE
    task = Received()
    task.get(a_failure("BLOCKED", digest="f"))
    assert task.get(a_result()) is Effect.REPLACED
    assert task.gain == Tally(
        tasks_done=1, tasks_errors=-1, items_actual=48, items_errors=2, analyze_total=48
    )


def test_after_the_project_is_done_a_result_is_late_and_changes_nothing():
    task = Received()
    task.get(a_result())
    assert task.get(a_result(digest="again", successful=3), project_done=True) is Effect.LATE
    assert not task.gain
    assert task.get(a_result(digest="again", successful=3), project_done=True) is Effect.REPEATED


results = st.builds(
    lambda good, attempt, cursor, digest: (
        a_result(attempt=attempt, cursor=cursor, digest=digest)
        if good
        else a_failure(attempt=attempt, cursor=cursor, digest=f"failed {digest}")
    ),
    st.booleans(),
    st.none() | st.integers(1, 4),
    st.sampled_from(["", "c"]),
    st.sampled_from(["1", "2"]),
)


@given(st.lists(results, max_size=12))
def test_whatever_comes_the_counters_are_those_of_the_task_and_a_repetition_changes_nothing(arriving):
    task, total = Received(), Tally()
    for result in arriving:
        before = task.task
        effect = task.get(result)
        total += task.gain
        if effect is Effect.RETRIED:
            assert task.task.attempt == before.attempt + 1 or result.attempt > before.attempt
        assert task.task.attempt <= max(before.max_attempts, before.attempt)
        after = task.task
        assert task.get(result) is not Effect.RETRIED
        assert task.task == after
    assert total == task_tally(task.task)
    assert total.tasks_done + total.tasks_errors == (task.task.state is not State.OPEN)
