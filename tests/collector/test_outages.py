"""Outages, poison, and the way back: what must not cost a result."""

import random
from datetime import timedelta

import asyncpg
import pytest

from opilio.adapters.postgres import migrate
from opilio.bus import Ack, DeadLetter, Message, Retry
from opilio.collector.collector import open_projects
from opilio.collector.intake import Intake
from opilio.collector.progress_reports import Telling
from opilio.collector.retention import Forgetting
from opilio.collector.state.postgres import PostgresState
from opilio.contracts.projects import ProjectInput
from opilio.errors import Unavailable
from tests.collector.samples import analyzed, encoded, v2
from tests.collector.world import QUICK


def a_message(body, key="crawler.tiktok.result", **more) -> Message:
    return Message(
        body if isinstance(body, bytes) else encoded(body), "collector.results", "", key, "m", **more
    )


@pytest.fixture
async def intake(database):
    project = ProjectInput(project_id="proj123", brand_keywords=["iphone", "samsung"])
    await open_projects(database, QUICK).create(project, by="test")
    return Intake(database, PostgresState(database), QUICK)


async def test_results_wait_while_the_state_is_away(intake, database):
    state = intake._state

    class Away(PostgresState):
        async def count(self, tallies):
            raise Unavailable("Redis does not answer")

    intake._state = Away(database)
    [verdict] = await intake.take([a_message(v2(found=50))])
    assert isinstance(verdict, Retry)
    intake._state = state
    assert await intake.take([a_message(v2(found=50), retries=30)]) == [Ack()]
    assert (await state.read("proj123")).tasks_done == 1


async def test_one_poisonous_message_costs_its_neighbours_nothing(intake):
    count = intake._state.count

    async def bites(tallies):
        if any(tally.items_actual == 13 for tally in tallies):
            raise ValueError("indigestible")
        return await count(tallies)

    intake._state.count = bites
    batch = [v2(found=50), v2("proj123-brand-1", found=13), v2(platform="youtube", found=50)]
    verdicts = await intake.take([a_message(body) for body in batch])
    assert [type(verdict) for verdict in verdicts] == [Ack, Retry, Ack]
    [last] = await intake.take([a_message(batch[1], retries=10)])
    assert isinstance(last, DeadLetter)
    assert (await intake._state.read("proj123")).tasks_done == 2


async def test_fuzzed_messages_are_processed_or_kept_with_a_reason(intake):
    chance = random.Random(5)
    whole = [
        encoded(v2(found=2, items=True)),
        encoded(analyzed(1, 3, 1)),
        encoded(v2(found=0, success=False, code="TIMEOUT")),
    ]
    messages = []
    for _ in range(1500):
        body = bytearray(chance.choice(whole))
        for _ in range(chance.randint(0, 4)):
            at = chance.randrange(len(body))
            body[at : at + chance.randint(0, 2)] = chance.randbytes(chance.randint(0, 2))
        messages.append(
            a_message(bytes(body), chance.choice(("crawler.tiktok.result", "analytics.result", "x")))
        )
    verdicts = [v for at in range(0, 1500, 250) for v in await intake.take(messages[at : at + 250])]
    assert {type(verdict) for verdict in verdicts} == {Ack, DeadLetter}
    assert all(verdict.reason for verdict in verdicts if isinstance(verdict, DeadLetter))
    state = await intake._state.read("proj123")
    assert state.tasks_done + state.tasks_errors <= 4


async def test_a_process_that_died_before_making_the_state_is_made_up_for(database):
    projects = open_projects(database, QUICK)

    async def dies(*_args):
        raise Unavailable("killed")

    opened, projects._state.open = projects._state.open, dies
    with pytest.raises(Unavailable):
        await projects.create(ProjectInput(project_id="p", brand_keywords=["x"]), by="test")
    projects._state.open = opened
    assert await projects._dispatch.open_projects() == 1
    assert (await projects.state("p")).tasks_total == 2


async def test_only_projects_that_are_long_done_are_forgotten(intake, database):
    state = intake._state
    await intake.take([a_message(v2(found=0, platform=p, job_id=f"proj123-brand-{n}")) for p in ("tiktok", "youtube") for n in (0, 1)])  # fmt: skip
    await Telling(database, state, None).run_once()
    assert await Forgetting(database, state).run_once() == {"forgotten": 0}
    assert await Forgetting(database, state, kept=timedelta(0)).run_once() == {"forgotten": 1}
    assert await Forgetting(database, state, kept=timedelta(0)).run_once() == {"forgotten": 0}
    assert (await state.read("proj123")).status == "DONE"


async def test_the_schema_goes_down_and_up_again(database_url):
    await migrate.downgrade(database_url, "0002")
    connection = await asyncpg.connect(database_url)
    try:
        assert await connection.fetchval("select to_regclass('task')") is None
        await migrate.upgrade(database_url)
        assert await connection.fetchval("select count(*) from task") == 0
    finally:
        await connection.close()
