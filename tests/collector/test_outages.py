"""Outages, poison messages and recovery: no result is lost."""

import asyncio
import random
from datetime import timedelta

import asyncpg
import pytest

from opilio.adapters.postgres import Database, migrate
from opilio.adapters.postgres.embedded import EmbeddedPostgres
from opilio.bus import Ack, DeadLetter, Message, Retry
from opilio.collector.collector import open_projects
from opilio.collector.intake import Intake
from opilio.collector.progress_reports import ProgressReporter
from opilio.collector.retention import ProjectRetention
from opilio.collector.state.postgres import PostgresState
from opilio.contracts.projects import ProjectInput
from tests.collector.samples import analyzed, encoded, v2
from tests.collector.world import QUICK, until


def a_message(body, key="crawler.tiktok.result", **more) -> Message:
    return Message(
        body if isinstance(body, bytes) else encoded(body), "collector.results", "", key, "m", **more
    )


@pytest.fixture
async def intake(database):
    project = ProjectInput(project_id="proj123", brand_keywords=["iphone", "samsung"])
    await open_projects(database, QUICK).create(project, by="test")
    return Intake(database, PostgresState(database), QUICK)


async def test_results_wait_while_the_database_is_away(intake, database):
    recorder = intake._recorder

    class Away:
        async def record(self, *_):
            raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")

    intake._recorder = Away()
    [verdict] = await intake.process([a_message(v2(found=50), retries=200)])
    assert isinstance(verdict, Retry)
    intake._recorder = recorder
    assert await intake.process([a_message(v2(found=50), retries=201)]) == [Ack()]
    assert (await intake._state.read("proj123")).tasks_done == 1


async def test_a_bad_message_does_not_affect_the_others_of_its_batch(intake):
    record = intake._recorder.record

    async def fails(results, analyses, now):
        if any(result.successful == 13 for result in results):
            raise ValueError("unexpected")
        return await record(results, analyses, now)

    intake._recorder.record = fails
    batch = [v2(found=50), v2("proj123-brand-1", found=13), v2(platform="youtube", found=50)]
    verdicts = await intake.process([a_message(body) for body in batch])
    assert [type(verdict) for verdict in verdicts] == [Ack, Retry, Ack]
    [last] = await intake.process([a_message(batch[1], retries=10)])
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
    verdicts = [v for at in range(0, 1500, 250) for v in await intake.process(messages[at : at + 250])]
    assert {type(verdict) for verdict in verdicts} == {Ack, DeadLetter}
    assert all(verdict.reason for verdict in verdicts if isinstance(verdict, DeadLetter))
    state = await intake._state.read("proj123")
    assert state.tasks_done + state.tasks_errors <= 4


async def test_projects_wait_while_postgresql_is_away(server_dir):
    """`project.created` waits as results do: it is no dead letter after some minutes."""
    server = EmbeddedPostgres(server_dir / "pg")
    url = await asyncio.to_thread(server.start)
    await migrate.upgrade(url)
    database = await Database.connect(url)
    try:
        dispatch = open_projects(database, QUICK)._dispatch
        body = {"event_type": "project.created", "payload": {"project_id": "p", "brand_keywords": ["x"]}}
        message = Message(encoded(body), "collector.inbound", "", "project.created", "m", retries=500)
        await asyncio.to_thread(server.stop)
        assert isinstance(await dispatch.handle(message), Retry)
        await asyncio.to_thread(server.start)

        async def taken() -> bool:
            return await dispatch.handle(message) == Ack()

        await until(taken)
    finally:
        await database.close()
        await asyncio.to_thread(server.stop)


async def test_only_projects_that_are_long_done_are_forgotten(intake, database):
    state = intake._state
    await intake.process([a_message(v2(found=0, platform=p, job_id=f"proj123-brand-{n}")) for p in ("tiktok", "youtube") for n in (0, 1)])  # fmt: skip
    await ProgressReporter(database, None).run_once()
    assert await ProjectRetention(database).run_once() == {"dropped": 0}
    assert await ProjectRetention(database, kept=timedelta(0)).run_once() == {"dropped": 1}
    assert await ProjectRetention(database, kept=timedelta(0)).run_once() == {"dropped": 0}
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
