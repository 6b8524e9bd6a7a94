"""The state machine is data: the code, the database and the page must tell the same story."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.adapters.postgres import Database
from opilio.crawl.job import ACTIVE, MAX_EXTENSION, TRANSITIONS, Cause, State, apply, extended_until
from opilio.errors import Conflict

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
            "select pg_get_constraintdef(oid) from pg_constraint where conname = 'job_active_place_check'"
        )
    told = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE))
    assert set(re.findall(r"'(\w+)'", guard)) == told | {"locked"}


def test_a_lock_lives_ten_times_its_ttl_at_most() -> None:
    start, ttl = datetime(2026, 3, 1, tzinfo=UTC), timedelta(minutes=10)
    assert extended_until(start + timedelta(minutes=9), start, ttl) == start + timedelta(minutes=19)
    assert extended_until(start + timedelta(minutes=95), start, ttl) == start + MAX_EXTENSION * ttl
