"""Every command that changes something writes an audit row; a new command must say here which kind it is."""

import asyncio
import getpass
import json
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from opilio.adapters.buckets import Buckets
from opilio.analytics.processing import BatchProcessor
from opilio.analytics.store import BatchStore
from opilio.crawl.pull import Pull
from opilio.runtime.bootstrap import open_opilio
from opilio.runtime.settings import load_settings
from tests.analytics.batches import body, event, failed
from tests.cli.conftest import Command
from tests.cli.test_conventions import leaves

# Commands that change nothing that is stored, or only what the running roles change by themselves all the time.
NO_CHANGE = {
    "up", "run", "doctor", "policies list", "policies export", "policies why", "recrawl simulate", "recrawl plan",
    "recrawl status", "jobs create-due", "jobs expire", "jobs list", "jobs show", "jobs why", "alerts list",
    "hosts list", "hosts show", "bots list", "keys list", "projects list", "projects show", "projects watch", "webhooks list",
    "webhooks show", "webhooks attempts", "events tail", "events list", "dlq list", "dlq show", "analytics summary", "analytics errors",
    "analytics export", "analytics classify", "bot run", "crawler simulate", "crawler check",
    "db status", "backup", "config show", "openapi", "asyncapi",
}  # fmt: skip
# Command → the action of its audit row.
CHANGES = {
    "login": "login.link", "policies add": "policy.create", "policies schedule": "policy.schedule_adaptive",
    "policies import": "policies.import", "policies run": "policy.run", "jobs release": "jobs.release",
    "jobs force-expire": "jobs.expire", "jobs reset": "jobs.reset", "alerts add": "alert.create",
    "alerts remove": "alert.delete", "hosts set": "host.limits", "bots token": "bot.token", "bots revoke": "bot.revoke",
    "keys create": "key.create", "keys revoke": "key.revoke", "projects create": "project.create",
    "projects close": "project.close", "projects reconcile": "project.reconcile", "projects dry-run": "project.dry_run",
    "webhooks add": "webhook.create", "webhooks test": "webhook.test", "webhooks replay": "webhook.replay",
    "webhooks disable": "webhook.change", "webhooks enable": "webhook.change", "webhooks rotate": "webhook.rotate",
    "webhooks delete": "webhook.delete", "dlq replay": "dlq.replay", "demo remove": "demo.remove",
    "db downgrade": "schema.downgrade", "db upgrade": "schema.upgrade", "restore": "database.restore", "analytics retry": "project.retry_errors",
}  # fmt: skip
DEAD_LETTER = """
insert into dead_letter (queue, source, reason, message_id, headers, body, dead_at)
values ('collector.results.dlq', 'collector.results', 'unreadable', 'm1', '{}', '{}', now()) returning dead_letter_id
"""


def test_every_command_is_known_to_change_something_or_nothing() -> None:
    found = {" ".join(path) for path, _ in leaves()}
    assert found == NO_CHANGE | set(CHANGES)
    assert not NO_CHANGE & set(CHANGES)


class Shell:
    """Runs commands and looks at the audit log after each of those that change something."""

    def __init__(self, command: Command, database_url: str) -> None:
        self._command = command
        self._url = database_url
        self._seen = 0
        self.done: set[str] = set()

    def sql(self, statement: str, *values: Any) -> list[Any]:
        async def ask() -> list[Any]:
            connection = await asyncpg.connect(self._url)
            try:
                return await connection.fetch(statement, *values)
            finally:
                await connection.close()

        return asyncio.run(ask())

    def change(self, name: str, *words: str, code: int = 0) -> Any:
        outcome = self._command(*name.split(), *words, "--json")
        assert outcome.code == code, (name, outcome.err)
        rows = self.sql(
            "select audit_id, actor, action from audit_log where audit_id > $1 order by audit_id", self._seen
        )
        mine = [row["action"] for row in rows if row["actor"] == f"cli:{getpass.getuser()}"]
        assert CHANGES[name] in mine, (name, rows)
        self._seen = rows[-1]["audit_id"]
        self.done.add(name)
        return outcome.json


@pytest.fixture
def shell(opilio_command: Command, database_url: str) -> Shell:
    return Shell(opilio_command, database_url)


def test_every_change_from_the_command_line_is_audited(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPILIO_WEBHOOK_ALLOW_PRIVATE", "127.0.0.0/8")
    shell.change("login")
    _policies_and_jobs(shell, tmp_path)
    shell.change("hosts set", "a.example", "--max-concurrent", "2")
    shell.change("bots revoke", shell.change("bots token", "bot-1")["bot_id"])
    shell.change("keys revoke", shell.change("keys create", "--name", "ci")["name"])
    _projects(shell, tmp_path)
    _webhooks(shell)
    shell.change("dlq replay", str(shell.sql(DEAD_LETTER)[0][0]))
    shell.change("demo remove")
    shell.change("db downgrade", "0015")
    shell.change("db upgrade")
    assert shell.done == set(CHANGES) - {"restore"}  # which needs an empty database: tests/cli/test_backup.py


def _policies_and_jobs(shell: Shell, folder: Path) -> None:
    policy = shell.change("policies add", "https://a.example/1")["id"]
    (folder / "urls.txt").write_text("https://a.example/2\n")
    shell.change("policies import", str(folder / "urls.txt"))
    shell.change("policies schedule", "adaptive", policy)
    job = shell.change("policies run", policy)["job_id"]
    for action in ("release", "reset", "force-expire"):
        asyncio.run(_pull_all())
        shell.change(f"jobs {action}", job)
    alert = shell.change("alerts add", "cheap", "--when", "below", "--value", "5", "--all")
    shell.change("alerts remove", alert["id"])


async def _pull_all() -> None:
    async with open_opilio(load_settings()) as opilio:
        await opilio.dispatcher.pull(Pull("bot-1", 100, ("http",), None))


def _projects(shell: Shell, folder: Path) -> None:
    project = {"project_id": "tea", "brand_name": "Tea", "brand_keywords": ["tea"]}
    (folder / "project.json").write_text(json.dumps(project))
    shell.change("projects create", str(folder / "project.json"))
    shell.change("projects reconcile", "tea")
    asyncio.run(_analyse_a_failed_post("tea"))
    shell.change("analytics retry", "tea")
    shell.change("projects dry-run", "tea", "--timeout", "1s", code=1)
    shell.sql("update project_state set tasks_done = tasks_total, analyze_total = 5")
    shell.change("projects close", "tea")


async def _analyse_a_failed_post(project_id: str) -> None:
    buckets = Buckets("memory://")
    await buckets.put("r", "1.json", body(failed("2", "TIMEOUT")))
    async with open_opilio(load_settings()) as opilio:
        message = event("r/1.json", "1", project_id=project_id, job_id=f"{project_id}-brand-0")
        await BatchProcessor(BatchStore(opilio.database), buckets).process(message)


def _webhooks(shell: Shell) -> None:
    webhook = shell.change("webhooks add", "http://127.0.0.1:9/", "--events", "*")["id"]
    shell.change("webhooks test", webhook, code=1)
    shell.change("webhooks replay", webhook, "--since", "1h")
    for verb in ("disable", "enable", "rotate", "delete"):
        shell.change(f"webhooks {verb}", webhook)
