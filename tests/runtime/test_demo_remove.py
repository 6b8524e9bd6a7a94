"""`opilio demo remove` deletes everything that the demo brought, and nothing else."""

import asyncio
import os
import subprocess
import sys

from opilio.adapters.postgres import Database, Statement
from opilio.contracts.bot_api import Outcome
from opilio.crawl.pull import Pull
from opilio.crawl.submission import parse
from opilio.runtime.bootstrap import Opilio
from opilio.runtime.demo import start_demo

TABLES = """select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where n.nspname = 'public' and c.relkind in ('r', 'p') and not c.relispartition order by 1"""
# The audit log is kept on purpose. Queues and pools are those of the installation, whatever a demo does.
KEPT = {"audit_log", "bus_binding", "bus_queue", "crawl_pool"}


async def contents(database: Database) -> dict[str, int]:
    """Rows in each table."""
    tables = [row["relname"] for row in await database.fetch(Statement("tables", TABLES, ()))]
    return {
        table: await database.value(Statement("count", f"select count(*) from {table}", ()))
        for table in tables
        if table not in KEPT
    }


async def crawl_some(opilio: Opilio) -> None:
    """The demo's bot works: results, failures, and five jobs that stay locked."""
    await opilio.scheduler.create_due()
    pulled = await opilio.dispatcher.pull(Pull("demo-bot", 20, ("http", "js")))
    assert pulled.count == 20
    for number, job in enumerate(pulled.jobs[:15]):
        ok = {"success": True, "data": {"n": number}, "raw_html": "<p>"}
        failed = {"success": False, "error_code": "TIMEOUT"}
        outcome = Outcome(job_id=job.job_id, lock_token=job.lock_token, **(ok if number % 3 else failed))
        await opilio.submitter.submit([parse("demo-bot", outcome)])


async def finish_project(database: Database, tree, env: dict[str, str]) -> None:
    roles = [tree("run", "collector", "analytics", "delivery", **env), tree("crawler", "simulate", **env)]
    is_done = Statement("done", "select 1 from project where project_id = 'demo' and status = 'DONE'", ())
    async with asyncio.timeout(90):
        while not await database.value(is_done):
            await asyncio.sleep(0.2)
    for role in roles:
        await asyncio.to_thread(role.stop)


def command(env: dict[str, str], *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "opilio", *words],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stderr


async def test_the_database_is_as_it_was_before(opilio, database, database_url, tmp_path, tree):
    env = {"OPILIO_DATABASE_URL": database_url, "OPILIO_DATA_DIR": str(tmp_path), "OPILIO_METRICS_PORT": "0"}
    before = await contents(database)
    assert len(await start_demo(opilio, "http://127.0.0.1:1")) == 3
    await crawl_some(opilio)
    await finish_project(database, tree, env)
    await asyncio.to_thread(command, env, "policies", "add", "https://shop.example/1")
    filled = {name for name, count in (await contents(database)).items() if count > before[name]}
    brought = {
        "policy",
        "result",
        "result_html",
        "job_step",
        "changed_value",
        "first_values",
        "figure_minute",
        "event",
        "bot",
    }
    assert brought | {"project", "task", "task_result", "post_analytics", "post_digest"} <= filled
    assert list(tmp_path.glob("blobs/**/*.zst"))

    said = await asyncio.to_thread(command, env, "demo", "remove")

    assert "200 policies of the demo were deleted" in said
    after = await contents(database)
    left = {name: count - before[name] for name, count in after.items() if count != before[name]}
    assert left == {"host": 1, "policy": 1, "crawl_state": 1}  # the person's own policy
    assert list(tmp_path.glob("blobs/**/*.zst")) == []
    assert not (tmp_path / "demo.json").exists()
