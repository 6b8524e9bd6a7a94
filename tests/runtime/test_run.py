"""`opilio run`: roles in production."""

import asyncio
import signal
import time
from pathlib import Path
from uuid import uuid4

import asyncpg
import httpx2
import psutil
import pytest

from opilio.access.credentials import Credentials
from opilio.adapters.postgres import Statement, migrate
from opilio.errors import Unavailable
from opilio.runtime.run_roles import _together
from opilio.turns import Turns
from tests.runtime.conftest import free_port, gone, http, wait_until


@pytest.fixture
def env(database_url, tmp_path):
    return {
        "OPILIO_DATABASE_URL": database_url,
        "OPILIO_DATA_DIR": str(tmp_path),
        "OPILIO_PORT": str(free_port()),
        "OPILIO_METRICS_PORT": str(free_port()),
    }


def test_a_scheduler_serves_metrics_and_stops(tree, env):
    process = tree("run", "scheduler", **env)
    url = f"http://127.0.0.1:{env['OPILIO_METRICS_PORT']}"
    wait_until(lambda: 'loop_runs_total{loop="create_due"}' in http(f"{url}/metrics")[1])
    assert http(f"{url}/else")[0] == 404
    assert http(f"{url}/healthz")[0] == 200
    assert http(f"{url}/readyz")[0] == 200
    assert process.stop() == 0
    assert "Traceback" not in process.errors.read_text()


def test_every_role_answers_on_its_metrics_port(tree, env):
    """The API and the scheduler have tests of their own."""
    ports = {role: str(free_port()) for role in ("delivery", "collector", "analytics")}
    processes = [tree("run", role, **{**env, "OPILIO_METRICS_PORT": port}) for role, port in ports.items()]
    for role, port in ports.items():
        wait_until(lambda port=port: http(f"http://127.0.0.1:{port}/readyz")[0] == 200)
        assert http(f"http://127.0.0.1:{port}/healthz")[0] == 200
        assert f'opilio_role_up{{role="{role}"}} 1.0' in http(f"http://127.0.0.1:{port}/metrics")[1]
    assert [process.stop() for process in processes] == [0, 0, 0]


async def test_readyz_reports_a_schema_that_is_not_its_own(tree, env, database):
    await asyncio.to_thread(_serves, tree("run", "api", **env), env)
    newest = await database.value(Statement("t", "select version_num from alembic_version", ()))
    for revision, note, status, said in (
        ("0003", "", 503, "older than"),
        ("9999", "", 503, "newer version"),
        ("9999", migrate.compatibility_note("9998", newest), 503, "newer version"),
        ("9999", migrate.compatibility_note("9999", newest), 200, "ready"),  # it serves until it is replaced
        ("", "", 503, "no schema"),
    ):
        async with database.session() as session:
            await session.connection.execute(f"comment on table alembic_version is '{note}'")
            await session.connection.execute("delete from alembic_version")
            if revision:
                await session.connection.execute(f"insert into alembic_version values ('{revision}')")
        for port in ("OPILIO_PORT", "OPILIO_METRICS_PORT"):
            answer, body = await asyncio.to_thread(http, f"http://127.0.0.1:{env[port]}/readyz")
            assert (answer, said in body) == (status, True), (port, body)
            assert await asyncio.to_thread(http, f"http://127.0.0.1:{env[port]}/healthz")
    async with database.session() as session:
        await session.connection.execute(f"insert into alembic_version values ('{newest}')")
    await asyncio.to_thread(_serves, None, env)


async def test_a_process_does_not_start_on_a_schema_it_does_not_know(tree, env, database):
    async with database.session() as session:
        await session.connection.execute("update alembic_version set version_num = '9999'")
    process = tree("run", "scheduler", **env)
    assert await asyncio.to_thread(process.process.wait, 60) != 0
    assert "install the newer version of Opilio" in process.errors.read_text()


def _serves(process, env):
    del process
    for port in ("OPILIO_PORT", "OPILIO_METRICS_PORT"):
        wait_until(lambda port=port: http(f"http://127.0.0.1:{env[port]}/readyz")[0] == 200)


def test_several_roles_in_one_process(tree, env):
    process = tree("run", "api", "scheduler", **env)
    url = f"http://127.0.0.1:{env['OPILIO_PORT']}"
    wait_until(lambda: http(f"{url}/readyz")[0] == 200)
    wait_until(lambda: "loop_runs_total" in http(f"{url}/metrics")[1])
    assert process.children() == {}
    assert process.stop(signal.SIGINT) == 0


def test_a_metrics_port_that_is_taken_stops_nothing_else(tree, env):
    first = tree("run", "scheduler", **env)
    url = f"http://127.0.0.1:{env['OPILIO_METRICS_PORT']}/metrics"
    wait_until(lambda: http(url)[0] == 200)
    second = tree("run", "scheduler", **env)
    wait_until(lambda: "metrics.port_taken" in second.errors.read_text())
    assert second.stop() == 0
    assert first.stop() == 0


def test_several_workers_serve_one_port_and_count_together(tree, env):
    process = tree("run", "api", "scheduler", **env, OPILIO_API_WORKERS="2")
    url = f"http://127.0.0.1:{env['OPILIO_PORT']}"
    wait_until(lambda: http(f"{url}/readyz")[0] == 200)
    workers = wait_until(
        lambda: [c.pid for c in psutil.Process(process.process.pid).children(recursive=True)]
    )
    assert len(workers) >= 2
    assert "jobs_done_total 0.0" in http(f"{url}/metrics")[1]
    own = f"http://127.0.0.1:{env['OPILIO_METRICS_PORT']}"
    wait_until(lambda: "loop_runs_total" in http(f"{own}/metrics")[1])
    assert http(f"{own}/readyz")[0] == 200
    process.stop(signal.SIGKILL)
    wait_until(lambda: all(gone(pid) for pid in workers))


async def test_the_small_requests_of_several_workers_take_turns(tree, env, database):
    """While a turn is held elsewhere, a worker waits for as long as its patience says, then goes on."""
    process = tree("run", "api", **env, OPILIO_API_WORKERS="2")
    url = f"http://127.0.0.1:{env['OPILIO_PORT']}"
    await asyncio.to_thread(_serves, process, env)
    _, token = await Credentials(database).new_bot_token("bot-1")
    workers = psutil.Process(process.process.pid).children(recursive=True)
    files = await asyncio.to_thread(
        wait_until,
        lambda: [Path(file.path) for w in workers for file in w.open_files() if file.path.endswith("/turns")],
    )
    who = {"authorization": f"Bearer {token}"}
    result = {"bot_id": "bot-1", "job_id": str(uuid4()), "lock_token": str(uuid4()), "success": False}
    async with httpx2.AsyncClient(base_url=url, headers=who) as client:
        for what, path, body, status in (
            (("pull", ("http",), None), "pull", {"bot_id": "bot-1", "max_jobs": 1}, 200),
            (("submit",), "submit", result, 404),
        ):
            await client.post(f"/api/crawl/{path}/", json=body)
            async with Turns(files[0]).of(*what).taken():
                began = time.monotonic()
                slow = await client.post(f"/api/crawl/{path}/", json=body)
                assert time.monotonic() - began > 0.2, what
            assert slow.status_code == status, slow.text


@pytest.mark.parametrize(
    ("words", "more", "said"),
    [
        (["scheduler"], {"OPILIO_DATABSE_URL": "postgresql://db/x"}, "did you mean OPILIO_DATABASE_URL?"),
        (["scheduler"], {"OPILIO_DATABASE_URL": "postgresql://u:p@127.0.0.1:1/x"}, "does not answer"),
    ],
)
def test_refusals_are_one_line(tree, env, words, more, said):
    process = tree("run", *words, **{**env, **more})
    assert process.process.wait(60) == 1
    assert said in process.errors.read_text()
    assert len(process.errors.read_text().splitlines()) == 1


def test_a_role_that_is_none(tree, env):
    process = tree("run", "everything", **env)
    assert process.process.wait(60) == 2


async def test_a_server_that_is_lost_at_the_start_is_named():
    async def prepare(_opilio, _stop):
        raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")

    with pytest.raises(Unavailable, match=r"connection was closed.*Start this process again"):
        await _together([prepare], None, asyncio.Event())
