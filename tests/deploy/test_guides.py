"""The guides of operators, command by command as they are printed, on real servers."""

import asyncio
import json
import re
import subprocess

import asyncpg

from opilio.adapters.postgres import migrate
from opilio.contracts.policies import PolicyInput
from opilio.delivery.outbox.relay import Relay
from opilio.delivery.outbox.routing import to_broker
from opilio.loop import drain
from opilio.runtime.bootstrap import open_opilio
from opilio.runtime.settings import load_settings
from tests.components.servers import free_port
from tests.conftest import database_at
from tests.delivery.receiver import Receiver
from tests.deploy.programs import DEPLOY, host_of
from tests.deploy.test_failover import binary
from tests.guides import Reader, blocks


async def test_back_up_and_restore(opilio, database_url, server_url, spare, server_dir, tmp_path):
    await opilio.policies.create(PolicyInput(url="https://a.example/"))
    backup, cron, restore, embedded = blocks("how-to/back-up-and-restore.md")
    values = {
        "/var/backups/opilio": str(tmp_path / "backups"),
        "/opt/opilio/bin/": "",
        "postgresql://opilio:…@db.internal/opilio_restored": database_at(server_url, spare),
        "db.internal": host_of(server_url),
        "--username opilio opilio_restored": f"--username postgres {spare}",
    }
    reader = Reader(tmp_path, values, OPILIO_DATABASE_URL=database_url, HOME=str(server_dir))
    (reader.programs / "createdb").symlink_to(binary("createdb"))
    await asyncio.to_thread(reader.run, backup)
    assert re.fullmatch(r"(\S+ ){5} opilio  /opt/opilio/bin/opilio backup .*\n", cron), "time, user, command"
    await asyncio.to_thread(reader.run, cron.partition("  opilio  ")[2].replace("\\%", "%"))
    assert len(list((tmp_path / "backups").iterdir())) == 2

    await asyncio.to_thread(reader.run, restore)
    settings = load_settings(data_dir=tmp_path / "other", database_url=database_at(server_url, spare))
    async with open_opilio(settings) as restored:
        assert len((await restored.insights.policies(limit=10)).items) == 1

    del reader.env["OPILIO_DATABASE_URL"]
    load, up = embedded.splitlines()
    await asyncio.to_thread(reader.run, load)
    await asyncio.to_thread(comes_up, reader, up)


def comes_up(reader: Reader, command: str) -> None:
    process = subprocess.Popen(
        ["bash", "-c", f"exec {reader.typed(command)} --json --no-demo --port {free_port()}"],
        env=reader.env,
        cwd=reader.folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert json.loads(process.stdout.readline())["url"]
    finally:
        process.terminate()
        process.communicate(timeout=60)


async def test_upgrade_and_roll_back(database_url, tmp_path):
    upgrade, roll_back = blocks("how-to/upgrade.md")
    before = migrate.revisions()[-2]
    values = {
        "/var/backups/opilio": str(tmp_path),
        "file:///…whl": "file:///new.whl",
        "file:///…old….whl": "file:///old.whl",
        "db downgrade 0006 ": f"db downgrade {before} ",
    }
    reader = Reader(tmp_path, values, OPILIO_DATABASE_URL=database_url)
    for program in ("systemctl", "pip"):
        reader.stand_in(program)
    await migrate.downgrade(database_url, before)
    said = await asyncio.to_thread(reader.run, upgrade)
    assert "PostgreSQL" in said, "the doctor's findings"
    assert (await migrate.status(database_url)).up_to_date
    await asyncio.to_thread(reader.run, roll_back)
    assert (await migrate.status(database_url)).current == before
    units = {word for line in reader.noted() for word in line.split() if word.startswith("opilio@")}
    roles = {file.stem for file in (DEPLOY / "systemd").glob("*.env")} - {"opilio"}
    assert units == {f"opilio@{role}" for role in roles} | {"opilio@*"}


async def test_receive_webhooks(opilio, database, database_url, tmp_path):
    subscribe, test, catch_up, rotate = blocks("how-to/receive-webhooks.md")
    missed = await a_finished_job(opilio, database)
    async with Receiver() as receiver:
        values = {
            "https://app.example/hooks": receiver.url("/hooks"),
            "0190a1b2-c3d4-7000-8000-00000000e7e7": str(missed),
        }
        env = {"OPILIO_DATABASE_URL": database_url, "OPILIO_WEBHOOK_ALLOW_PRIVATE": "127.0.0.1"}
        reader = Reader(tmp_path, values, **env)
        said = await asyncio.to_thread(reader.run, subscribe)
        made = dict(re.findall(r"^(id|secret) +(\S+)$", said, re.MULTILINE))
        reader.values |= {"0190a1b2-c3d4-7000-8000-000000000005": made["id"], " ID ": f" {made['id']} "}
        await asyncio.to_thread(reader.run, test)
        [got] = await receiver.arrived(1)
        assert got.verified_by(made["secret"])["type"] == "webhook.test"
    said = await asyncio.to_thread(reader.run, catch_up)
    assert "1 queued" in said
    assert "whsec_" in await asyncio.to_thread(reader.run, rotate)


async def a_finished_job(opilio, database) -> object:
    """The id of its event, which was sent to the log."""
    async with database.session() as session:
        insert = "insert into outbox (type, subject, data, occurred_at) values ('crawl.job.completed', 's', '{}', now())"
        await session.connection.execute(insert)
    await drain(Relay(database, to_broker).run_once)
    return (await opilio.events.page(limit=1)).items[0].id


async def test_the_role_and_database_of_the_postgresql_guide(server_url, spare, tmp_path):
    sql, pooled, failover = blocks("how-to/postgresql.md")
    connection = await asyncpg.connect(server_url)
    for statement in sql.replace("opilio", spare).replace("…", "secret").strip().splitlines():
        await connection.execute(statement)
    await connection.close()
    await migrate.upgrade(database_at(server_url, spare).replace("://postgres:@", f"://{spare}:secret@"))
    for block in (pooled, failover):
        lines = dict(line.split("=", 1) for line in block.replace("…", "secret").splitlines())
        load_settings(
            data_dir=tmp_path, **{name.removeprefix("OPILIO_").lower(): url for name, url in lines.items()}
        )
