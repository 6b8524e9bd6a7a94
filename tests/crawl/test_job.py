"""The state machine is data: the code, the database and the page agree on it."""

import re
from pathlib import Path

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.adapters.postgres import Database
from opilio.contracts.bot_api import PulledJob
from opilio.crawl.job import ACTIVE, TRANSITIONS, Cause, State, apply
from opilio.errors import Conflict
from tests.crawl.farm import Farm

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "job-lifecycle.md"
STEPS = {(before, after) for (before, _), after in TRANSITIONS.items()}


def test_it_works() -> None:
    assert apply(State.PENDING, Cause.PULL) is State.LOCKED


@given(st.sampled_from(State), st.sampled_from(Cause))
def test_what_is_not_drawn_is_refused(state: State, cause: Cause) -> None:
    if (state, cause) in TRANSITIONS:
        assert apply(state, cause) is TRANSITIONS[state, cause]
    else:
        with pytest.raises(Conflict) as refusal:
            apply(state, cause)
        assert refusal.value.code == "invalid_state"
        assert str(state) in refusal.value.message


def test_done_is_final() -> None:
    assert not [cause for state, cause in TRANSITIONS if state is State.DONE]


def test_every_job_can_end() -> None:
    reached, ends = {State.PENDING}, set(State) - ACTIVE
    for _ in State:
        reached |= {after for before, after in STEPS if before in reached}
    assert reached == set(State)
    assert all(any(before is State.LOCKED for before, after in STEPS if after is end) for end in ends)


def test_the_page_draws_the_same_edges() -> None:
    drawn = re.findall(r"^ +(\w+) --> (\w+): (\w+)$", PAGE.read_text(), re.MULTILINE)
    assert {(before, cause): after for before, after, cause in drawn} == {
        (str(before), str(cause)): str(after) for (before, cause), after in TRANSITIONS.items()
    }


def test_the_page_lists_the_same_edges() -> None:
    rows = re.findall(r"^\| (\w+) \| (\w+) \| (\w+) \| \w", PAGE.read_text(), re.MULTILINE)
    assert [row for row in rows if row[0] != "from"] == [
        (str(before), str(cause), str(after)) for (before, cause), after in TRANSITIONS.items()
    ]


async def test_the_database_refuses_a_step_that_is_not_drawn(database: Database) -> None:
    async with database.session() as session:
        for before in State:
            for after in State:
                insert = session.connection.execute(
                    "insert into job_step (job_id, from_state, to_state, at, by, reason) "
                    "values (gen_random_uuid(), $1, $2, now(), 'test', 'test')",
                    before,
                    after,
                )
                if (before, after) in STEPS:
                    await insert
                else:
                    with pytest.raises(asyncpg.CheckViolationError):
                        await insert


async def test_the_database_knows_the_same_ends(database: Database) -> None:
    async with database.session() as session:
        guard = await session.connection.fetchval(
            "select pg_get_constraintdef(oid) from pg_constraint where conname = 'job_archive_status_check'"
        )
    assert set(re.findall(r"'(\w+)'", guard)) == {str(state) for state in set(State) - ACTIVE}


async def test_the_page_knows_the_places_of_the_database(database: Database) -> None:
    async with database.session() as session:
        guard = await session.connection.fetchval(
            "select pg_get_constraintdef(oid) from pg_constraint where conname = 'crawl_state_place_check'"
        )
    told = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE))
    assert set(re.findall(r"'(\w+)'", guard)) == told | {"locked", "due"}


# ── every action goes through the table ──────────────────────────────────────────────────────────


async def _pull(farm: Farm, _job: PulledJob) -> None:
    await farm.policy(url="https://shop.example/another")
    await farm.due()
    await farm.pull()


async def _fail(farm: Farm, job: PulledJob) -> None:
    await farm.fail(job, error_code="CONTENT_REMOVED")


async def _sweep(farm: Farm, _job: PulledJob) -> None:
    farm.later(hours=1)
    if not (
        await farm.opilio.lock_expiry.run_once()
    ).total:  # it logs a lock that it cannot expire, and goes on
        raise Conflict("no lock expired: that is possible for none")


async def _reset(farm: Farm, job: PulledJob) -> None:
    for result in await farm.opilio.operator_actions.reset([job.job_id], "operator:ann"):
        if result.refusal is not None:
            raise result.refusal


async def _reset_failed(farm: Farm, job: PulledJob) -> None:
    await _fail(farm, job)
    await _reset(farm, job)


async def _reset_expired(farm: Farm, job: PulledJob) -> None:
    await farm.rows("update job_active set max_retries = 0")
    await _sweep(farm, job)
    await _reset(farm, job)


ACTIONS = {
    (State.PENDING, Cause.PULL): _pull,
    (State.LOCKED, Cause.SUCCEED): Farm.submit,
    (State.LOCKED, Cause.RETRY): Farm.fail,
    (State.LOCKED, Cause.FAIL): _fail,
    (State.LOCKED, Cause.EXPIRE): _sweep,
    (State.EXPIRED, Cause.RECOVER): _sweep,
    (State.LOCKED, Cause.RELEASE): Farm.release,
    (State.LOCKED, Cause.RESET): _reset,
    (State.FAILED, Cause.RESET): _reset_failed,
    (State.EXPIRED, Cause.RESET): _reset_expired,
}


def test_every_transition_has_its_action_here() -> None:
    assert ACTIONS.keys() == TRANSITIONS.keys()


@pytest.mark.parametrize("transition", ACTIONS, ids=lambda pair: f"{pair[0]}-{pair[1]}")
async def test_an_action_needs_its_transition(
    farm: Farm, transition: tuple[State, Cause], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its line in the table the action is refused and changes nothing."""
    job = await farm.one(max_retries=1)
    monkeypatch.delitem(TRANSITIONS, transition)
    with pytest.raises(Conflict, match="is possible for"):
        await ACTIONS[transition](farm, job)
