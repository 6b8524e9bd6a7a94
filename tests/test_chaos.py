"""A real server under 24 bots, some of them dead, late or sending twice, while its parts are killed with -9.

Afterwards the audit proves on the database that nothing was lost, nothing doubled, no two locks overlapped; and
every answer that a bot got still holds.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import psutil
import pytest

from opilio.access.credentials import Credentials
from opilio.adapters.postgres import Database
from opilio.adapters.postgres.embedded import EmbeddedPostgres
from opilio.contracts.policies import PolicyPatch
from opilio.crawl.policies import Draft
from opilio.crawl.politeness import Limits
from opilio.runtime.bootstrap import wire
from opilio.runtime.settings import load_settings
from tests.web.running import free_port

BOTS, POLICIES, STORM_SECONDS, PATIENCE = 24, 300, 16, 60
TTL_MINUTES = 0.05
AUDIT = (Path(__file__).parent / "crawl" / "audit.sql").read_text()
MOODS = ["honest"] * 4 + ["dead", "late", "twice", "failing"]


@dataclass
class Tree:
    """`opilio up` and all its processes."""

    data_dir: Path
    port: int
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def postmaster(self) -> int:
        return int((self.data_dir / "postgres" / "postmaster.pid").read_text().split()[0])

    def role(self, name: str) -> psutil.Process:
        for child in psutil.Process(self.process.pid).children():
            if child.cmdline()[-len(name.split()) :] == name.split() or f"run {name}" in " ".join(
                child.cmdline()
            ):
                return child
        raise LookupError(name)

    def kill_role(self, name: str) -> None:
        with suppress(LookupError, psutil.NoSuchProcess):  # it is down already, which is as good
            self.role(name).kill()

    def kill_worker(self) -> None:
        """One of several processes that serve the API, or the only one."""
        with suppress(LookupError, psutil.NoSuchProcess, IndexError):
            api = self.role("api")
            (api.children() or [api])[0].kill()

    def kill_postgres(self) -> None:
        with suppress(OSError, ValueError):
            os.kill(self.postmaster, signal.SIGKILL)


@pytest.fixture(params=["1", "2"], ids=["one API process", "two API workers"])
def tree(server_dir: Path, request: pytest.FixtureRequest) -> Iterator[Tree]:
    port = free_port()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OPILIO_")}
    environment |= {"OPILIO_SCHEDULER_INTERVAL_SECONDS": "0.2", "OPILIO_SCHEDULE_JITTER": "0"}
    environment["OPILIO_API_WORKERS"] = request.param
    up = [
        sys.executable,
        "-m",
        "opilio",
        "up",
        "--no-demo",
        "--data-dir",
        str(server_dir),
        "--port",
        str(port),
    ]
    with (server_dir / "up.log").open("wb") as log:
        process = subprocess.Popen(up, env=environment, stdout=log, stderr=log, start_new_session=True)
    yield Tree(server_dir, port, process)
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)


async def ready(tree: Tree, client: httpx2.AsyncClient) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            if (await client.get("/readyz")).status_code == 200:
                return
        except httpx2.TransportError:
            pass
        await asyncio.sleep(0.1)
    raise AssertionError((tree.data_dir / "up.log").read_text())


@dataclass
class Bot:
    """A bot in the real world: it sends again what was not answered, and has a mood."""

    name: str
    mood: str
    client: httpx2.AsyncClient
    token: str
    calm: asyncio.Event
    ended: set[str]
    answers: list[dict[str, Any]] = field(default_factory=list)
    chance: random.Random = field(default_factory=random.Random)

    async def call(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Until there is an answer that a bot should believe."""
        while True:
            try:
                answer = await self.client.post(
                    f"/api/crawl/{path}/",
                    json={"bot_id": self.name, **body},
                    headers={"authorization": f"Bearer {self.token}"},
                )
                if answer.status_code < 500:
                    read: dict[str, Any] = answer.json()
                    return read
            except httpx2.TransportError:
                pass
            await asyncio.sleep(0.1)

    async def live(self) -> None:
        while len(self.ended) < POLICIES:
            pulled = await self.call("pull", {"max_jobs": 3, "wait_seconds": 0.5})
            for job in pulled["data"]["jobs"]:
                await self.crawl(job)

    async def crawl(self, job: dict[str, Any]) -> None:
        mood = "honest" if self.calm.is_set() else self.mood
        if mood == "dead" and self.chance.random() < 0.5:
            return
        if mood == "late" and self.chance.random() < 0.5:
            await asyncio.sleep(TTL_MINUTES * 60 + 0.5)
        body = {
            "job_id": job["job_id"],
            "lock_token": job["lock_token"],
            "success": True,
            "price": 5,
            "currency": "USD",
        }
        if mood == "failing" and self.chance.random() < 0.5:
            body = {
                "job_id": job["job_id"],
                "lock_token": job["lock_token"],
                "success": False,
                "error_code": "TIMEOUT",
            }
        sends = 3 if mood == "twice" else 1
        answers = await asyncio.gather(*(self.call("submit", body) for _ in range(sends)))
        for answer in answers:
            self.note(job, answer)

    def note(self, job: dict[str, Any], answer: dict[str, Any]) -> None:
        self.answers.append({"job_id": job["job_id"], "token": job["lock_token"], "bot": self.name, **answer})
        if answer["success"] and answer["data"]["status"] in {"done", "failed"}:
            self.ended.add(job["url"])
        if not answer["success"]:
            assert answer["error"]["code"] == "lock_expired", answer


async def storm(tree: Tree) -> None:
    """What may happen to a server, in no good order."""
    blows = [
        lambda: tree.kill_role("api"),
        tree.kill_worker,
        tree.kill_postgres,
        lambda: tree.kill_role("scheduler"),
        lambda: (tree.kill_postgres(), tree.kill_role("api")),
    ]
    for blow in blows:
        await asyncio.sleep(STORM_SECONDS / len(blows))
        blow()


@contextmanager
def joined(tree: Tree) -> Iterator[str]:
    """The database of the tree, for as long as it is needed; without this the server would outlive the tree."""
    server = EmbeddedPostgres(tree.data_dir / "postgres")
    try:
        yield server.start()
    finally:
        server.stop()


async def prepare(tree: Tree, bots: list[str]) -> dict[str, str]:
    patch = PolicyPatch(timeout_minutes=TTL_MINUTES, retry_backoff_minutes=0.01, max_retries=50)
    drafts = [Draft(n, f"https://shop{n % 7}.example/{n}", patch) for n in range(POLICIES)]
    with joined(tree) as url:
        database = await Database.connect(url)
        try:
            opilio = wire(load_settings(data_dir=tree.data_dir, database_url=url), database)
            await opilio.policies.import_drafts(drafts)
            await opilio.hosts.set_limits("shop1.example", Limits(2, None))
            await opilio.hosts.set_limits("shop2.example", Limits(None, 0.05))
            return {name: (await Credentials(database).new_bot_token(name))[1] for name in bots}
        finally:
            await database.close()


async def test_nothing_is_lost_and_nothing_is_doubled(tree: Tree) -> None:
    names = [f"bot-{n}" for n in range(BOTS)]
    calm, ended = asyncio.Event(), set[str]()
    async with httpx2.AsyncClient(
        base_url=tree.url, timeout=5, limits=httpx2.Limits(max_connections=100)
    ) as client:
        await ready(tree, client)
        tokens = await prepare(tree, names)
        bots = [
            Bot(name, MOODS[n % len(MOODS)], client, tokens[name], calm, ended)
            for n, name in enumerate(names)
        ]
        living = [asyncio.create_task(bot.live()) for bot in bots]
        await storm(tree)
        calm.set()
        await asyncio.wait_for(asyncio.gather(*living), PATIENCE)
        await ready(tree, client)
    await inspect(tree, [answer for bot in bots for answer in bot.answers])


async def inspect(tree: Tree, answers: list[dict[str, Any]]) -> None:
    with joined(tree) as url:
        connection = await asyncpg.connect(url)
        try:
            faults = await connection.fetch(AUDIT)
            jobs = {str(row["job_id"]): row for row in await connection.fetch("select * from job")}
            ends = await connection.fetchval("select count(distinct policy_id) from job_archive")
        finally:
            await connection.close()
    assert faults == [], [dict(fault) for fault in faults]
    assert ends == POLICIES, "every policy got its end"
    done = [answer for answer in answers if answer["success"] and answer["data"]["status"] == "done"]
    for answer in done:
        job = jobs[answer["job_id"]]
        assert (job["status"], str(job["result_id"])) == ("done", answer["data"]["result_id"]), (
            "an answer was taken back"
        )
        assert (job["locked_by"], str(job["lock_token"])) == (answer["bot"], answer["token"]), (
            "an old lock was believed"
        )
    refusals = sum(not answer["success"] for answer in answers)
    assert len(done) > len({answer["job_id"] for answer in done}), (
        "nobody was heard twice: the storm was too mild"
    )
    assert refusals, "nobody was late: the storm was too mild"
