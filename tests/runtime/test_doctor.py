"""The doctor: plain words for each fault, and what to do."""

import asyncio
import socket
from types import SimpleNamespace

import pytest

from opilio.adapters.postgres import Database, Statement, migrate
from opilio.cli.app import run
from opilio.runtime import doctor, doctor_machine
from opilio.runtime.doctor import examine


@pytest.fixture
def here(monkeypatch, tmp_path, database_url):
    monkeypatch.setenv("OPILIO_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("OPILIO_DATABASE_URL", database_url)
    monkeypatch.chdir(tmp_path)
    return monkeypatch


async def found() -> dict:
    return {finding.subject: finding for finding in await examine()}


async def test_it_works(here):
    findings = await found()
    assert {subject for subject, finding in findings.items() if finding.verdict == "fault"} == set()
    assert findings["PostgreSQL"].verdict == "ok"
    assert findings["schema"].verdict == "ok"
    assert findings["scheduler"].verdict == "warning"
    assert "opilio run scheduler" in findings["scheduler"].remedy
    assert "opilio bots token" in findings["bots"].remedy


async def test_a_living_scheduler_is_seen(here, database_url):
    database = await Database.connect(database_url, name="opilio scheduler")
    assert (await found())["scheduler"].verdict == "ok"
    await database.close()


async def test_wrong_settings(here):
    here.setenv("OPILIO_PORT", "many")
    (finding,) = await examine()
    assert finding.verdict == "fault"
    assert "OPILIO_PORT" in finding.said


@pytest.mark.parametrize(("free", "verdict"), [(10_000, "ok"), (1_000, "warning"), (100, "fault")])
async def test_disk_space(here, monkeypatch, free, verdict):
    monkeypatch.setattr(
        doctor_machine.shutil, "disk_usage", lambda _: SimpleNamespace(free=free << 20, total=1 << 40)
    )
    assert (await found())["data directory"].verdict == verdict


async def test_a_port_that_is_taken(here):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        here.setenv("OPILIO_PORT", str(held.getsockname()[1]))
        here.setattr(doctor_machine, "_PATIENCE", 0.2)
        finding = (await found())["server"]
    assert finding.verdict == "warning"
    assert "process" in finding.said


@pytest.mark.parametrize(
    ("variable", "url", "subject"),
    [
        ("OPILIO_DATABASE_URL", "postgresql://u:hunter2@127.0.0.1:1/x", "PostgreSQL"),
        ("OPILIO_AMQP_URL", "amqp://u:hunter2@127.0.0.1:1/", "RabbitMQ"),
        ("OPILIO_REDIS_URL", "redis://:hunter2@127.0.0.1:1/0", "Redis"),
        ("OPILIO_BLOBS_URL", "s3://crawls?endpoint=http://127.0.0.1:1", "object storage"),
    ],
)
async def test_what_does_not_answer(here, variable, url, subject):
    here.setenv(variable, url)
    here.setenv("AWS_ACCESS_KEY_ID", "key")
    here.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    finding = (await found())[subject]
    assert finding.verdict == "fault"
    assert variable in finding.remedy
    assert "hunter2" not in finding.said


async def test_blobs_that_answer(here, tmp_path):
    here.setenv("OPILIO_BLOBS_URL", f"file://{tmp_path}/blobs")
    assert (await found())["object storage"].verdict == "ok"


async def test_a_schema_that_is_behind(here, database_url):
    await migrate.downgrade(database_url, "base")
    findings = await found()
    assert findings["schema"].verdict == "fault"
    assert "opilio db upgrade" in findings["schema"].remedy
    assert "bots" not in findings


async def test_a_schema_from_the_future(here, database):
    await database.execute(_statement("update alembic_version set version_num = '9999'"))
    finding = (await found())["schema"]
    assert finding.verdict == "fault"
    assert "newer version" in finding.said


async def test_the_budget_of_connections(here, database):
    most = int(await database.value(_statement("select current_setting('max_connections')::int")))
    here.setenv("OPILIO_DATABASE_POOL_SIZE", "6")
    here.setenv("OPILIO_DATABASE_HOT_POOL_SIZE", "3")
    finding = (await found())["connections"]
    assert finding.verdict == "ok"
    assert finding.said.startswith("a process opens up to 10; the server has room for ")
    assert finding.said.endswith(f"({most} connections)")
    here.setenv("OPILIO_DATABASE_POOL_SIZE", str(most))
    finding = (await found())["connections"]
    assert finding.verdict == "warning"
    assert "OPILIO_DATABASE_POOL_SIZE" in finding.remedy


async def test_a_process_opens_no_more_connections_than_its_pools(database_url):
    database = await Database.connect(database_url, size=3, hot_size=2, name="opilio pools")
    try:
        sleep = _statement("select pg_sleep(0.1)")
        await asyncio.gather(
            *(database.fetch(sleep, hot=number % 2 == 0) for number in range(20)), return_exceptions=False
        )
        opened = await database.value(
            _statement("select count(*) from pg_stat_activity where application_name = 'opilio pools'")
        )
    finally:
        await database.close()
    assert opened == 3 + 2


async def test_an_old_server(here, monkeypatch):
    monkeypatch.setattr(doctor, "_OLDEST_POSTGRES", 990_000)
    assert (await found())["PostgreSQL"].remedy == "Opilio needs PostgreSQL 16 or newer"


async def test_looking_makes_nothing(here, tmp_path):
    here.delenv("OPILIO_DATABASE_URL")
    here.setenv("OPILIO_DATA_DIR", str(tmp_path / "not-yet"))
    findings = await found()
    assert "first start" in findings["PostgreSQL"].said
    assert not (tmp_path / "not-yet").exists()


def _statement(sql: str):
    return Statement("test", sql, ())


def test_the_command_exits_1_on_a_fault(here, capfd):
    here.setenv("OPILIO_PORT", "many")
    assert run(["doctor"]) == 1
    assert capfd.readouterr().out.startswith("BAD ")
