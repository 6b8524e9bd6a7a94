"""Rolling upgrades: processes of the version before go on beside a schema that was upgraded under them."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest

from opilio.adapters.postgres import migrate
from opilio.adapters.postgres.queries import Queries
from tests.components.servers import free_port
from tests.delivery.receiver import Receiver
from tests.deploy.previous import unpack_previous

ROLES = ("api", "scheduler", "delivery", "collector", "analytics")
SRC = Path(__file__).parents[2] / "src"
PAGES = 4
PATIENCE = 60  # seconds


@pytest.fixture(scope="module")
def old_src(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_previous(tmp_path_factory.mktemp("previous"))


class Version:
    """One version of Opilio on the shared database: its commands, and all its roles in one process."""

    def __init__(self, src: Path, database_url: str, folder: Path) -> None:
        self.name = src.parent.name
        self.port = free_port()
        self.log = folder / f"{self.name}.log"
        plain = {key: value for key, value in os.environ.items() if not key.startswith("OPILIO_")}
        self.env = plain | {
            "PYTHONPATH": str(src),
            "OPILIO_DATABASE_URL": database_url,
            "OPILIO_DATA_DIR": str(folder / "data"),
            "OPILIO_PORT": str(self.port),
            "OPILIO_METRICS_PORT": "0",
            "OPILIO_WEBHOOK_ALLOW_PRIVATE": "127.0.0.0/8",
            "OPILIO_SCHEDULER_INTERVAL_SECONDS": "0.2",
        }
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str) -> None:
        with self.log.open("ab") as log:
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "opilio", *words], env=self.env, stdout=log, stderr=log
                )
            )

    def stop(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(60)
        self.processes = []

    def errors(self) -> list[str]:
        lines = self.log.read_text().splitlines()
        return [line for line in lines if '"level": "error"' in line or "Traceback" in line]

    @asynccontextmanager
    async def api(self, key: str = "") -> AsyncIterator["Api"]:
        headers = {"authorization": f"Bearer {key}"}
        base = f"http://127.0.0.1:{self.port}"
        async with httpx2.AsyncClient(base_url=base, headers=headers, timeout=30, trust_env=False) as client:
            api = Api(self, client)
            await api.until_ready()
            yield api


class Api:
    """What a program and a bot do, at the API of one version."""

    def __init__(self, version: Version, client: httpx2.AsyncClient) -> None:
        self.version, self.client = version, client

    async def until_ready(self) -> None:
        async with self.patience("not ready"):
            while True:
                try:
                    if (await self.client.get("/readyz")).status_code == 200:
                        return
                except httpx2.TransportError:
                    assert self.version.processes[0].poll() is None, self.version.log.read_text()
                await asyncio.sleep(0.1)

    @asynccontextmanager
    async def patience(self, what: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(PATIENCE):
                yield
        except TimeoutError:
            pytest.fail(
                f"{self.version.name}: {what} within {PATIENCE} s\n" + "\n".join(self.version.errors()[-3:])
            )

    async def call(self, method: str, path: str, body: Any = None, token: str = "") -> Any:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        answer = await self.client.request(method, path, json=body, headers=headers)
        assert answer.status_code < 300, (self.version.name, path, answer.text, self.version.errors())
        return answer.json()["data"]

    async def crawl(self, token: str, pages: int) -> set[str]:
        """Pulls, renews and submits until so many jobs are done."""
        done: set[str] = set()
        async with self.patience(f"no {pages} jobs done"):
            while len(done) < pages:
                pulled = await self.call(
                    "POST", "/api/crawl/pull/", {"bot_id": "b", "max_jobs": 1, "wait_seconds": 1}, token
                )
                for job in pulled["jobs"]:
                    held = {"job_id": job["job_id"], "lock_token": job["lock_token"]}
                    await self.call("POST", "/api/crawl/heartbeat/", {"bot_id": "b", "jobs": [held]}, token)
                    result = held | {"bot_id": "b", "success": True, "price": 9.5, "currency": "USD"}
                    assert (await self.call("POST", "/api/crawl/submit/", result, token))["status"] == "done"
                    done.add(job["job_id"])
        return done

    async def until_project_ends(self, project_id: str) -> None:
        async with self.patience(f"project {project_id} did not end"):
            while (await self.call("GET", f"/api/v1/projects/{project_id}"))["status"] != "DONE":
                await asyncio.sleep(0.1)


@pytest.fixture
def versions(old_src: Path, database_url: str, tmp_path: Path) -> Iterator[tuple[Version, Version]]:
    both = Version(old_src, database_url, tmp_path), Version(SRC, database_url, tmp_path)
    yield both
    for version in both:
        version.stop()


async def use_every_part(api: Api, name: str, token: str) -> set[str]:
    """Pages are crawled, a project is collected and analysed."""
    for page in range(PAGES):
        await api.call("POST", "/api/v1/policies", {"url": f"https://{name}.example/{page}"})
    project = {"project_id": name, "brand_keywords": [name], "limit_per_keyword": 5}
    await api.call("POST", "/api/v1/projects", project)
    done = await api.crawl(token, PAGES)
    await api.until_project_ends(name)
    return done


async def test_both_versions_work_beside_the_new_schema(versions, opilio, database_url):
    old, new = versions
    _, key = await opilio.credentials.new_key("test", "admin")
    _, token = await opilio.credentials.new_bot_token("b")
    await migrate.downgrade(database_url, migrate.revisions()[-2])
    old.start("run", *ROLES)
    old.start("crawler", "simulate", "--calm")
    async with Receiver() as receiver, old.api(key) as before:
        endpoint = {"url": receiver.url(), "events": ["crawl.job.completed"]}
        await before.call("POST", "/api/v1/webhooks", endpoint)
        await migrate.upgrade(database_url)  # while the old version runs
        done = await use_every_part(before, "old", token)
        new.start("run", *ROLES)
        async with new.api(key) as after:
            both = (use_every_part(before, "old-beside-new", token), use_every_part(after, "new", token))
            done = done.union(*await asyncio.gather(*both))
        assert len(done) == 3 * PAGES
        events = await receiver.arrived(len(done))
        assert len({event.id for event in events}) == len(done)
    assert (old.errors(), new.errors()) == ([], [])


async def test_every_statement_of_the_version_before_is_understood(old_src, database):
    """Also those that no test runs beside another version, such as upkeep and pages of the dashboard."""
    files = sorted(old_src.rglob("sql/*.sql"))
    assert len(files) > 20
    async with database.session() as session:
        for file in files:
            for text in re.split(r"^-- name: ", file.read_text(), flags=re.MULTILINE)[1:]:
                name, _, body = text.partition("\n")
                try:
                    await session.connection.prepare(Queries({name: body}).without(name).sql)
                except asyncpg.PostgresError as error:
                    pytest.fail(f"{file.name}: {name}: {error}")
