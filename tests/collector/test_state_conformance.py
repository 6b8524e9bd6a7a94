"""What a store of project state promises, written once and run on Redis and on PostgreSQL."""

import asyncio
import random
from uuid import uuid4

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opilio.collector import tally as counting
from opilio.collector.state.protocol import Counted
from opilio.collector.tally import Tally
from opilio.contracts.projects import ProjectState


def new_state(tasks: int = 4, limit: int = 50) -> ProjectState:
    return ProjectState(tasks_total=tasks, items_expected=tasks * limit, crawl_total=tasks)


def a_result(project_id: str, number: int, good: int = 48, bad: int = 2) -> Tally:
    return Tally(
        project_id, f"r{number}", tasks_done=1, items_actual=good, items_errors=bad, analyze_total=good
    )


def an_analysis(project_id: str, number: int, good: int, bad: int = 0) -> Tally:
    return Tally(project_id, f"a{number}", analyze_done=good, analyze_errors=bad)


async def test_a_new_project_is_pending_with_all_fields(state):
    await state.open("p", new_state())
    assert msgspec.to_builtins(await state.read("p")) == {
        "status": "PENDING", "tasks_total": 4, "tasks_done": 0, "tasks_errors": 0, "items_expected": 200,
        "items_actual": 0, "items_errors": 0, "analyze_total": 0, "analyze_done": 0, "analyze_errors": 0,
        "crawl_total": 4, "crawl_done": 0, "crawl_errors": 0,
    }  # fmt: skip
    assert await state.read("nobody") is None


async def test_opening_again_changes_nothing(state):
    await state.open("p", new_state())
    await state.count([a_result("p", 1)])
    await state.open("p", new_state(tasks=9))
    assert (await state.read("p")).tasks_total == 4
    assert (await state.read("p")).tasks_done == 1


async def test_a_tally_moves_counters_and_legacy_fields_once(state):
    await state.open("p", new_state())
    assert await state.count([a_result("p", 1), a_result("p", 1)]) == [Counted.COUNTED, Counted.REPEATED]
    assert await state.count([a_result("p", 1)]) == [Counted.REPEATED]
    got = await state.read("p")
    assert (got.tasks_done, got.items_actual, got.items_errors, got.analyze_total) == (1, 48, 2, 48)
    assert (got.crawl_done, got.crawl_errors, got.status) == (48, 2, "PROCESSING")


async def test_an_unknown_project_is_told_and_made_by_nobody(state):
    await state.open("p", new_state())
    tallies = [a_result("nobody", 1), a_result("p", 1), a_result("nobody", 2)]
    assert await state.count(tallies) == [Counted.UNKNOWN, Counted.COUNTED, Counted.UNKNOWN]
    assert await state.read("nobody") is None


async def test_done_when_both_phases_are_and_for_good(state):
    await state.open("p", new_state(tasks=2))
    await state.count([a_result("p", 1), a_result("p", 2)])
    assert (await state.read("p")).status == "PROCESSING"
    await state.count([an_analysis("p", 1, 95)])
    assert (await state.read("p")).status == "PROCESSING"
    await state.count([an_analysis("p", 2, 0, 1)])
    assert (await state.read("p")).status == "DONE"
    await state.count([Tally("p", "late page", items_actual=5, analyze_total=5)])
    assert (await state.read("p")).status == "DONE"


async def test_tasks_that_all_fail_end_the_project(state):
    await state.open("p", new_state(tasks=2))
    await state.count([Tally("p", "1", tasks_errors=1), Tally("p", "2", tasks_errors=1)])
    assert (await state.read("p")).status == "DONE"


async def test_an_analysis_before_its_result_counts_at_once_and_ends_nothing(state):
    await state.open("p", new_state(tasks=1))
    await state.count([an_analysis("p", 1, 48)])
    assert (await state.read("p")).status == "PROCESSING"
    await state.count([a_result("p", 1)])
    assert (await state.read("p")).status == "DONE"


async def test_starting_makes_it_processing(state):
    await state.open("p", new_state())
    await state.count([counting.started("p"), counting.started("p")])
    assert (await state.read("p")).status == "PROCESSING"


async def test_a_change_stays_until_it_is_told(state):
    await state.open("p", new_state())
    assert await state.changes(10) == []
    await state.count([a_result("p", 1)])
    [change] = await state.changes(10)
    assert (change.project_id, change.version, change.state.tasks_done) == ("p", 1, 1)
    await state.count([a_result("p", 2)])
    await state.told([change])
    [newer] = await state.changes(10)
    assert newer.version == 2
    await state.told([newer])
    assert await state.changes(10) == []
    await state.count([a_result("p", 2)])
    assert await state.changes(10) == []


async def test_what_was_counted_can_be_forgotten_and_the_figures_stay(state):
    await state.open("p", new_state(tasks=1))
    await state.open("q", new_state())
    await state.count([Tally("p", "1", tasks_done=1), a_result("q", 1)])
    await state.forget(["p"])
    assert (await state.read("p")).tasks_done == 1
    assert await state.count([a_result("q", 1)]) == [Counted.REPEATED]


async def test_many_at_once_lose_nothing(state):
    await state.open("p", new_state(tasks=300))
    await state.open("q", new_state(tasks=300))
    tallies = [a_result(project, n, 1, 0) for project in "pq" for n in range(300)] * 3
    random.Random(7).shuffle(tallies)
    answers = await asyncio.gather(*(state.count(tallies[at : at + 50]) for at in range(0, 1800, 50)))
    assert sum(answer is Counted.COUNTED for chunk in answers for answer in chunk) == 600
    for project in "pq":
        assert (await state.read(project)).tasks_done == 300


async def test_more_than_lua_can_unpack(state):
    await state.open("p", new_state(tasks=5000))
    answers = await state.count([a_result("p", n, 1, 0) for n in range(2500)])
    assert answers == [Counted.COUNTED] * 2500


numbers = st.integers(0, 60)
tallies = st.builds(
    lambda n, kind, good, bad: (
        Tally("", f"r{n}", tasks_done=1, items_actual=n, items_errors=bad, analyze_total=n)
        if kind == "result"
        else Tally("", f"e{n}", tasks_errors=1)
        if kind == "error"
        else Tally("", f"a{n}", analyze_done=n, analyze_errors=n % 3)
    ),
    st.integers(0, 8),
    st.sampled_from(["result", "error", "analysis"]),
    numbers,
    st.just(1),
)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(tallies, max_size=20), st.integers(1, 12), st.randoms(use_true_random=False))
async def test_any_order_and_repetition_gives_the_counters_of_a_serial_run(state, arriving, tasks, chance):
    """The model is the pure rule, run once over each tally; what is compared is every field."""
    project_id = uuid4().hex
    arriving = [Tally(project_id, t.identity, *t.numbers) for t in arriving]
    await state.open(project_id, new_state(tasks))
    expected = new_state(tasks)
    for tally in {t.identity: t for t in arriving}.values():
        expected = counting.add(expected, tally)
    shuffled = arriving * 2
    chance.shuffle(shuffled)
    at = chance.randint(0, len(shuffled))
    await state.count(shuffled[:at])
    await state.count(shuffled[at:])
    got = await state.read(project_id)
    # When a project is done depends on the order, as what comes after DONE does not undo it; the rest does not.
    assert got.status == "DONE" or not counting.is_complete(expected) or not arriving
    got.status = expected.status = "PROCESSING"
    assert got == expected
