import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.collector import tally as counting
from opilio.collector.result import Analysis
from opilio.contracts.projects import ProjectState
from tests.collector.samples import NOW, a_failure, a_result

counts = st.integers(0, 400)


def test_one_result_moves_the_counters_of_the_contract():
    tally = counting.of_result("p", a_result(successful=48, failed=2), settles=True)
    assert tally.numbers == (1, 0, 48, 2, 48, 0, 0)
    assert counting.of_result("p", a_failure(failed=3), settles=True).numbers == (0, 1, 0, 3, 0, 0, 0)
    assert counting.of_result("p", a_result(), settles=False).numbers[:2] == (0, 0)
    assert counting.of_analysis(Analysis("p", "j", 7, 3)).numbers == (0, 0, 0, 0, 0, 7, 3)


def test_the_example_ends_in_its_final_state():
    state = ProjectState(status="DONE", tasks_total=4, tasks_done=4, items_expected=200, items_actual=173,
                         items_errors=7, analyze_total=173, analyze_done=171, analyze_errors=2)  # fmt: skip
    assert counting.crawl_percent(state) == 86.5
    assert counting.analyze_percent(state) == 98.84
    assert counting.overall_percent(state) == 100
    state.status = "PROCESSING"
    assert counting.overall_percent(state) == 92.67


def test_the_webhook_of_the_contract():
    state = ProjectState(status="PROCESSING", tasks_total=6, tasks_done=4, items_expected=300, items_actual=180,
                         items_errors=5, analyze_total=180, analyze_done=100, analyze_errors=2)  # fmt: skip
    body = counting.progress("proj123", state, NOW)
    assert (body.crawl.tasks.percent, body.crawl.items.percent, body.analyze.percent) == (66.67, 60.0, 55.56)
    assert body.overall_progress_percent == 57.78
    assert body.updated_at == NOW
    state.status = "DONE"
    done = counting.progress("proj123", state, NOW)
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
    assert counting.is_crawl_complete(state) is crawl
    assert counting.is_analyze_complete(state) is analyze
    assert counting.is_complete(state) is (crawl and analyze)


@given(*[counts] * 9)
def test_percentages_stay_between_0_and_100(total, done, errors, expected, actual, wrong, analyze, good, bad):
    state = ProjectState(status="PROCESSING", tasks_total=total, tasks_done=done, tasks_errors=errors,
                         items_expected=expected, items_actual=actual, items_errors=wrong,
                         analyze_total=analyze, analyze_done=good, analyze_errors=bad)  # fmt: skip
    for percent in (
        counting.crawl_percent,
        counting.tasks_percent,
        counting.analyze_percent,
        counting.overall_percent,
    ):
        assert 0 <= percent(state) <= 100
    if expected and actual <= expected:
        assert counting.crawl_percent(state) == pytest.approx(actual / expected * 100, abs=0.005)
