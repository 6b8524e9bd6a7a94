"""Projects through everything at once: crawlers killed, Redis flushed, RabbitMQ restarted, PostgreSQL killed, analytics
stopped for a while. `SOAK_PROJECTS=50 pytest tests/collector/test_soak.py` is the large one."""

import asyncio
import json
import os
import random
import signal
import sys
from collections import Counter
from pathlib import Path

import asyncpg
import pytest
from redis.asyncio import Redis

from opilio.adapters.postgres import Database, migrate
from opilio.adapters.postgres.embedded import EmbeddedPostgres
from opilio.collector.collector import open_projects
from opilio.collector.config import Config
from opilio.contracts.projects import ProjectInput
from tests.collector.world import until
from tests.delivery.receiver import Receiver

PROJECTS = int(os.environ.get("SOAK_PROJECTS", "2"))
CRAWLERS = (
    "crawler",
    "simulate",
    "--platform",
    "tiktok",
    "--platform",
    "youtube",
    "--calm",
    "--at-once",
    "2",
)


class Process:
    """A process of Opilio, started again whenever it ends, as systemd would; its log is kept beside the test."""

    def __init__(self, environment: dict[str, str], folder: Path, *words: str) -> None:
        self._environment = environment
        self._log = folder / f"{'-'.join(words[:2])}.log"
        self._words = words
        self._process: asyncio.subprocess.Process | None = None
        self._keeper = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        with self._log.open("ab") as log:
            while True:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "opilio",
                    *self._words,
                    env=self._environment,
                    stdout=log,
                    stderr=log,
                )
                await self._process.wait()
                await asyncio.sleep(0.2)

    def signal(self, number: int) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    async def kill(self) -> None:
        self.signal(signal.SIGKILL)
        if self._process is not None:
            await self._process.wait()

    async def stop(self) -> None:
        self._keeper.cancel()
        await asyncio.gather(self._keeper, return_exceptions=True)
        await self.kill()


async def killed_and_started(server: EmbeddedPostgres, folder: Path) -> None:
    """Without a checkpoint, as a machine that loses power."""
    pid = int((folder / "postmaster.pid").read_text().splitlines()[0])
    os.kill(pid, signal.SIGQUIT)

    async def gone() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return not (folder / "postmaster.pid").exists()

    await until(gone, 60)
    await asyncio.to_thread(server.start)


@pytest.mark.timeout(1800)
async def test_every_project_ends_done_with_the_figures_of_the_tables(
    server_dir,
    own_rabbitmq,
    redis_url,
    s3,
    tmp_path,
):
    chance = random.Random(12)
    server = EmbeddedPostgres(server_dir / "pg")
    url = await asyncio.to_thread(server.start)
    await migrate.upgrade(url)
    environment = os.environ | {
        "OPILIO_DATABASE_URL": url,
        "OPILIO_AMQP_URL": own_rabbitmq.url,
        "OPILIO_REDIS_URL": redis_url,
        "OPILIO_BLOBS_URL": f"s3://{s3.bucket}?endpoint={s3.url}",
        "AWS_ACCESS_KEY_ID": s3.access_key,
        "AWS_SECRET_ACCESS_KEY": s3.secret_key,
        "OPILIO_WEBHOOK_ALLOW_PRIVATE": "true",
        "OPILIO_METRICS_PORT": "0",
        "OPILIO_DATA_DIR": str(server_dir / "data"),
    }
    redis = Redis.from_url(redis_url)
    await redis.flushall()
    roles = Process(environment, tmp_path, "run", "collector", "delivery")
    analytics = Process(environment, tmp_path, "run", "analytics")
    crawlers = Process(environment, tmp_path, *CRAWLERS)
    database = await Database.connect(url)
    projects = open_projects(database, Config(), redis_url)
    names = [f"soak{number}" for number in range(PROJECTS)]
    try:
        async with Receiver() as app:
            for name in names:
                project = ProjectInput(
                    project_id=name,
                    brand_keywords=[f"{name} một", f"{name} hai"],
                    limit_per_keyword=60,
                    webhook_url=app.url(),
                )
                await projects.create(project, by="test")

            async def pause_analytics() -> None:
                analytics.signal(signal.SIGSTOP)
                await asyncio.sleep(3)
                analytics.signal(signal.SIGCONT)

            async def restart_broker() -> None:
                await asyncio.to_thread(own_rabbitmq.stop)
                await asyncio.to_thread(own_rabbitmq.start)

            async def kill_postgres() -> None:
                await killed_and_started(server, server_dir / "pg")

            faults = [crawlers.kill, redis.flushall, pause_analytics, restart_broker, crawlers.kill,
                      kill_postgres, redis.flushall, crawlers.kill]  # fmt: skip
            for fault in faults:
                await asyncio.sleep(chance.uniform(1, 3))  # so that each finds the projects at another point
                await fault()

            async def all_done() -> bool:
                try:
                    states = [await projects.state(name) for name in names]
                except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                    return False
                return all(state.status == "DONE" for state in states)

            await until(all_done, 900)

            async def all_told() -> bool:
                return {json.loads(got.body)["project_id"] for got in app.got if b'"DONE"' in got.body} == {
                    *names
                }

            await until(all_told, 120)
            await asyncio.sleep(2)  # longer than the pace of progress: a second DONE would come now
            done = {got.id: json.loads(got.body)["project_id"] for got in app.got if b'"DONE"' in got.body}
            assert Counter(done.values()) == dict.fromkeys(names, 1)
        await assert_figures(database, projects, names)
        assert await projects.reconcile() == []
    finally:
        await asyncio.gather(*(process.stop() for process in (roles, analytics, crawlers)))
        await projects.close()
        await redis.aclose()
        await database.close()
        await asyncio.to_thread(server.stop)


async def assert_figures(database, projects, names) -> None:
    """The state is what the tables add up to, and DONE came after the last row."""
    for name in names:
        state = await projects.state(name)
        assert state.tasks_done + state.tasks_errors == state.tasks_total == 4
        assert state.analyze_done + state.analyze_errors == state.analyze_total == state.items_actual > 0
        async with database.session() as session:
            row = await session.connection.fetchrow(
                """select (select sum(successful) from task where project_id = $1) as items,
                          (select sum(success_count + error_count) from batch_result
                           where project_id = $1 and counted) as analysed,
                          (select max(a.processed_at) from analysed_batch a join task t on t.job_id = a.job_id
                           where a.project_id = $1 and position(t.crawl_id in a.batch_key) > 0) as last,
                          (select finished_at from project where project_id = $1) as finished""",
                name,
            )
        assert (row["items"], row["analysed"]) == (state.items_actual, state.analyze_total)
        assert row["finished"] >= row["last"]
