"""`opilio doctor` as a person runs it: each fault is one line, with one line that says what to do."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import aio_pika
import asyncpg
import pytest

from opilio.adapters.postgres import migrate
from opilio.cli.app import run
from opilio.rabbitmq.bus import RabbitBus
from opilio.runtime import doctor_machine
from opilio.runtime.settings import load_settings
from tests.components.fixtures import rabbitmq, rabbitmq_url, redis_server, redis_url, s3
from tests.components.servers import free_port

__all__ = ["rabbitmq", "rabbitmq_url", "redis_server", "redis_url", "s3"]


@pytest.fixture
def doctor(monkeypatch, tmp_path, database_url, capfd):
    """Runs the command and answers its findings by subject; checks that each is one line."""
    monkeypatch.setenv("OPILIO_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("OPILIO_DATABASE_URL", database_url)
    monkeypatch.setenv("OPILIO_PORT", str(free_port()))
    monkeypatch.chdir(tmp_path)

    def command(**environment: str) -> SimpleNamespace:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        capfd.readouterr()
        code = run(["doctor", "--json"])
        seen = capfd.readouterr()
        findings = json.loads(seen.out)["findings"]
        for finding in findings:
            assert "\n" not in finding["said"]
            assert len(finding["said"]) < 300
            assert " object at 0x" not in finding["said"]
            assert (finding["verdict"] == "ok") == (finding["remedy"] is None)
        assert seen.err == ""
        return SimpleNamespace(
            code=code, **{f["subject"].replace(" ", "_"): SimpleNamespace(**f) for f in findings}
        )

    return command


def test_it_works(doctor, rabbitmq_url, redis_url, s3):
    found = doctor(
        OPILIO_AMQP_URL=rabbitmq_url,
        OPILIO_REDIS_URL=redis_url,
        OPILIO_BLOBS_URL=f"s3://{s3.bucket}?endpoint={s3.url}",
        AWS_ACCESS_KEY_ID=s3.access_key,
        AWS_SECRET_ACCESS_KEY=s3.secret_key,
    )
    assert found.code == 0
    wanted = (found.RabbitMQ, found.queues, found.Redis, found.object_storage, found.PostgreSQL, found.clock)
    assert {finding.verdict for finding in wanted} == {"ok"}
    assert list((s3.folder / "data" / s3.bucket).rglob("*.*")) == []  # the object that it wrote is gone


def test_a_healthy_api(doctor, database_url, tmp_path):
    port = free_port()
    api = subprocess.Popen(
        [sys.executable, "-m", "opilio", "run", "api"],
        env={
            **os.environ,
            "OPILIO_DATABASE_URL": database_url,
            "OPILIO_DATA_DIR": str(tmp_path),
            "OPILIO_PORT": str(port),
            "OPILIO_METRICS_PORT": "0",
        },
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for line in api.stderr:
            if "api.listening" in line or "roles.started" in line:
                break
        found = wait_for_server(lambda: doctor(OPILIO_PORT=str(port)))
        assert found.server.said == f"runs at http://127.0.0.1:{port} and is ready"
        asyncio.run(migrate.downgrade(database_url, "-1"))
        found = doctor()
        assert found.server.verdict == "fault"
        assert "opilio db upgrade" in found.server.said
        assert "opilio db upgrade" in found.schema.remedy
    finally:
        api.terminate()
        api.communicate(timeout=30)


def wait_for_server(ask):
    """The log says when the role starts, and the port opens a moment later."""
    for _ in range(20):
        found = ask()
        if "does not run" not in found.server.said:
            return found
    raise AssertionError(found.server)


@pytest.mark.parametrize("place", ["/etc/passwd/opilio", "/proc/opilio"])
def test_a_data_directory_that_cannot_be(doctor, place):
    found = doctor(OPILIO_DATA_DIR=place)
    assert found.code == 1
    assert "cannot be used" in found.data_directory.said
    assert "OPILIO_DATA_DIR" in found.data_directory.remedy


def test_a_data_directory_of_another_user(doctor, monkeypatch, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    if os.geteuid() == 0:  # who may write anywhere
        monkeypatch.setattr(doctor_machine.os, "access", lambda path, _: Path(path) != closed)
    found = doctor(OPILIO_DATA_DIR=str(closed / "data"))
    assert "cannot be written by the user" in found.data_directory.said


def test_a_full_disk(doctor, monkeypatch):
    usage = SimpleNamespace(free=100 << 20, total=1 << 40)
    monkeypatch.setattr(doctor_machine.shutil, "disk_usage", lambda _: usage)
    found = doctor()
    assert (found.code, found.data_directory.verdict) == (1, "fault")
    assert "free some space" in found.data_directory.remedy


@pytest.mark.parametrize(
    ("bucket", "key", "secret", "said", "remedy"),
    [
        ("other", None, None, "there is no bucket other", "create the bucket"),
        ("opilio", "somebody", None, "the access key is unknown", "AWS_ACCESS_KEY_ID"),
        ("opilio", None, "wrong", "the secret key is wrong", "AWS_SECRET_ACCESS_KEY"),
        ("opilio", "", "", "there are no credentials", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
    ],
)
def test_s3_that_refuses(doctor, s3, bucket, key, secret, said, remedy, monkeypatch):
    credentials = {
        "AWS_ACCESS_KEY_ID": s3.access_key if key is None else key,
        "AWS_SECRET_ACCESS_KEY": s3.secret_key if secret is None else secret,
    }
    if key == "":
        for name in credentials:
            monkeypatch.delenv(name, raising=False)
        credentials = {"AWS_METADATA_ENDPOINT": "http://127.0.0.1:1"}  # a cloud's own is not asked
    found = doctor(OPILIO_BLOBS_URL=f"s3://{bucket}?endpoint={s3.url}", **credentials)
    assert found.object_storage.verdict == "fault"
    assert found.object_storage.said.endswith(said)
    assert remedy in found.object_storage.remedy


def test_a_virtual_host_that_is_not_there(doctor, rabbitmq_url):
    found = doctor(OPILIO_AMQP_URL=f"{rabbitmq_url}shop")
    assert "the virtual host shop does not exist" in found.RabbitMQ.said
    assert "rabbitmqctl add_vhost shop" in found.RabbitMQ.remedy


def test_a_broker_that_is_away_is_one_finding_and_nothing_else(tmp_path, database_url):
    """In a process of its own: where pytest listens, no library's log reaches the terminal."""
    done = subprocess.run(
        [sys.executable, "-m", "opilio", "doctor"],
        env={
            "PATH": os.environ["PATH"],
            "OPILIO_DATA_DIR": str(tmp_path),
            "OPILIO_DATABASE_URL": database_url,
            "OPILIO_AMQP_URL": f"amqp://127.0.0.1:{free_port()}/",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "→ start RabbitMQ, or correct OPILIO_AMQP_URL" in done.stdout


def test_a_wrong_password_of_rabbitmq(doctor, rabbitmq_url):
    found = doctor(OPILIO_AMQP_URL=rabbitmq_url.replace("guest:guest", "guest:hunter2"))
    assert "password is refused" in found.RabbitMQ.said
    assert "hunter2" not in found.RabbitMQ.said


def test_queue_arguments_that_differ(doctor, rabbitmq_url):
    async def classic_queue() -> None:
        async with await aio_pika.connect(rabbitmq_url) as connection:
            channel = await connection.channel()
            await channel.declare_queue("crawler.mastodon.queue", durable=True)
            await channel.default_exchange.publish(aio_pika.Message(b"{}"), "crawler.mastodon.queue")

    asyncio.run(classic_queue())
    found = doctor(OPILIO_AMQP_URL=rabbitmq_url, OPILIO_PLATFORMS="mastodon")
    assert found.queues.verdict == "warning"
    assert "inequivalent arg 'x-" in found.queues.said
    assert "(1 messages in it)" in found.queues.said
    assert "rabbitmqctl delete_queue crawler.mastodon.queue" in found.queues.remedy


def test_queues_that_opilio_declared_pass(doctor, rabbitmq_url):
    async def declare() -> None:
        settings = load_settings(platforms="peertube")
        await (await RabbitBus.connect(rabbitmq_url, settings.topology)).close()

    asyncio.run(declare())
    assert doctor(OPILIO_AMQP_URL=rabbitmq_url, OPILIO_PLATFORMS="peertube").queues.verdict == "ok"


@pytest.mark.parametrize(("seconds", "verdict"), [(30, "warning"), (300, "fault")])
def test_clock_skew(doctor, database_url, seconds, verdict):
    """The database's clock goes wrong: a function of the same name is found first."""

    async def set_clock() -> None:
        connection = await asyncpg.connect(database_url)
        await connection.execute(
            "create function public.clock_timestamp() returns timestamptz language sql as "
            f"$$ select pg_catalog.clock_timestamp() + interval '{seconds} s' $$"
        )
        name = await connection.fetchval("select current_database()")
        await connection.execute(f"alter database {name} set search_path = public, pg_catalog")
        await connection.close()

    asyncio.run(set_clock())
    found = doctor()
    assert found.clock.verdict == verdict
    assert f"differ by {seconds}." in found.clock.said or f"differ by {seconds - 1}." in found.clock.said
    assert "NTP" in found.clock.remedy


@pytest.mark.parametrize(
    ("change", "said"),
    [("/nowhere_db?", "does not exist"), ("/postgres?", "none, the newest is")],
)
def test_a_database_that_is_not_ready(doctor, server_url, change, said):
    found = doctor(OPILIO_DATABASE_URL=server_url.replace("/postgres?", change))
    assert found.code == 1
    assert said in (found.PostgreSQL.said if "nowhere" in change else found.schema.said)
