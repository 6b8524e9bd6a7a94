from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.collector import completion
from opilio.collector.tally import Tally, add_tally, batch_tally
from opilio.contracts.projects import ProjectState
from tests.collector.samples import NOW, a_batch

counts = st.integers(0, 400)


def test_a_batch_counts_its_analysed_items():
    batch = a_batch(success_count=7, error_count=3, fetch_error_count=2)
    assert batch_tally(batch) == Tally(analyze_done=7, analyze_errors=3)
    assert not batch_tally(replace(batch, counted=False))


def test_differences_add_up():
    state = ProjectState(tasks_total=1, items_expected=50, crawl_total=1)
    state = add_tally(state, Tally(tasks_done=1, items_actual=50, analyze_total=50))
    assert (state.status, state.crawl_done) == ("PROCESSING", 50)
    state = add_tally(state, Tally(items_actual=-5, analyze_total=-5, analyze_done=45))
    assert (state.status, state.analyze_total, state.crawl_done) == ("DONE", 45, 45)


def test_the_example_ends_in_its_final_state():
    state = ProjectState(status="DONE", tasks_total=4, tasks_done=4, items_expected=200, items_actual=173,
                         items_errors=7, analyze_total=173, analyze_done=171, analyze_errors=2)  # fmt: skip
    assert completion.crawl_percent(state) == 86.5
    assert completion.analyze_percent(state) == 98.84
    assert completion.overall_percent(state) == 100
    state.status = "PROCESSING"
    assert completion.overall_percent(state) == 92.67


def test_the_webhook_of_the_contract():
    state = ProjectState(status="PROCESSING", tasks_total=6, tasks_done=4, items_expected=300, items_actual=180,
                         items_errors=5, analyze_total=180, analyze_done=100, analyze_errors=2)  # fmt: skip
    body = completion.progress("proj123", state, NOW)
    assert (body.crawl.tasks.percent, body.crawl.items.percent, body.analyze.percent) == (66.67, 60.0, 55.56)
    assert body.overall_progress_percent == 57.78
    assert body.updated_at == NOW
    state.status = "DONE"
    done = completion.progress("proj123", state, NOW)
    assert (done.overall_progress_percent, done.completed_at) == (100, NOW)


@pytest.mark.parametrize(
    ("state", "crawl", "analyze"),
    [
        (ProjectState(), True, True),
        (ProjectState(crawl_total=2, crawl_done=1), False, True),
        (ProjectState(tasks_total=2, tasks_done=1, tasks_errors=1), True, True),
        (ProjectState(tasks_total=2, tasks_done=1), False, True),
        (ProjectState(analyze_total=5, analyze_done=3, analyze_errors=1), True, False),
        (ProjectState(analyze_total=5, analyze_done=3, analyze_errors=2), True, True),
    ],
)
def test_completion(state, crawl, analyze):
    assert completion.is_crawl_complete(state) is crawl
    assert completion.is_analyze_complete(state) is analyze
    assert completion.is_complete(state) is (crawl and analyze)


@given(*[counts] * 9)
def test_percentages_stay_between_0_and_100(total, done, errors, expected, actual, wrong, analyze, good, bad):
    state = ProjectState(status="PROCESSING", tasks_total=total, tasks_done=done, tasks_errors=errors,
                         items_expected=expected, items_actual=actual, items_errors=wrong,
                         analyze_total=analyze, analyze_done=good, analyze_errors=bad)  # fmt: skip
    for percent in (
        completion.crawl_percent,
        completion.tasks_percent,
        completion.analyze_percent,
        completion.overall_percent,
    ):
        assert 0 <= percent(state) <= 100
    if expected and actual <= expected:
        assert completion.crawl_percent(state) == pytest.approx(actual / expected * 100, abs=0.005)
