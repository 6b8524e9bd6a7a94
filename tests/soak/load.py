"""What goes through the system meanwhile: bots that crawl, projects that are created, a receiver of webhooks."""

import asyncio
import random
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx2

from opilio.adapters.postgres import Database
from opilio.contracts.policies import PolicyPatch
from opilio.contracts.webhooks import EndpointCreate
from opilio.crawl.policies import Draft
from opilio.crawl.politeness import Limits
from opilio.runtime.bootstrap import wire
from opilio.runtime.settings import load_settings
from tests.delivery.receiver import Got, Receiver, Reply
from tests.soak.system import System

BOTS, POLICIES, EVERY_SECONDS, TTL_MINUTES = 12, 240, 30, 0.1
PROJECT_EVERY_SECONDS = 15.0
MOODS = ("honest", "honest", "honest", "dead", "late", "twice", "failing")
_TRY_AGAIN = 0.2


@dataclass
class Work:
    """What was put in and what was answered."""

    key: str = ""
    tokens: dict[str, str] = field(default_factory=dict)
    done: dict[str, str] = field(default_factory=dict)  # job → result, as answered to a bot
    statuses: Counter[int] = field(default_factory=Counter)
    no_answer: int = 0
    wrong: list[str] = field(default_factory=list)
    projects: list[str] = field(default_factory=list)


async def prepare(system: System, receiver: Receiver) -> Work:
    """Policies, tokens and a webhook, written as the command line does it."""
    work = Work()
    patch = PolicyPatch(
        frequency_hours=EVERY_SECONDS / 3600,
        timeout_minutes=TTL_MINUTES,
        retry_backoff_minutes=0.02,
        max_retries=20,
    )
    drafts = [Draft(n, f"https://shop{n % 7}.example/{n}", patch) for n in range(POLICIES)]
    database = await Database.connect(system.database_url)
    try:
        settings = load_settings(
            data_dir=system.folder / "data",
            database_url=system.database_url,
            webhook_allow_private="127.0.0.0/8",
        )
        opilio = wire(settings, database)
        await opilio.policies.import_drafts(drafts)
        await opilio.hosts.set_limits("shop1.example", Limits(2, None))
        await opilio.hosts.set_limits("shop2.example", Limits(None, 0.05))
        for number in range(BOTS):
            _, work.tokens[f"bot-{number}"] = await opilio.credentials.new_bot_token(f"bot-{number}")
        _, work.key = await opilio.credentials.new_key("soak", "admin")
        endpoint = EndpointCreate(url=receiver.url(), events=["crawl.job.*"])
        await opilio.webhooks.create(endpoint, actor="soak")
    finally:
        await database.close()
    return work


def sometimes_failing(got: Got) -> Reply:
    """One answer in twenty is a 500, so that deliveries are repeated."""
    del got
    return Reply(500 if random.random() < 0.05 else 200)


@dataclass
class Bot:
    """A bot in the real world: it sends again what was not answered, and has a mood."""

    name: str
    mood: str
    client: httpx2.AsyncClient
    work: Work
    stop: asyncio.Event

    async def live(self) -> None:
        while not self.stop.is_set():
            pulled = await self.call("pull", {"max_jobs": 3, "wait_seconds": 1})
            for job in pulled["data"]["jobs"] if pulled.get("success") else []:
                await self.crawl(job)

    async def call(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Until there is an answer that a bot should believe."""
        headers = {"authorization": f"Bearer {self.work.tokens[self.name]}"}
        while True:
            try:
                answer = await self.client.post(
                    f"/api/crawl/{path}/", json={"bot_id": self.name, **body}, headers=headers
                )
            except httpx2.TransportError:
                self.work.no_answer += 1
            else:
                self.work.statuses[answer.status_code] += 1
                if answer.status_code < 500:
                    read: dict[str, Any] = answer.json()
                    return read
                if answer.status_code != 503 or "retry-after" not in answer.headers:
                    self.work.wrong.append(f"{path}: {answer.status_code} {answer.text[:200]}")
            await asyncio.sleep(_TRY_AGAIN)

    async def crawl(self, job: dict[str, Any]) -> None:
        unlucky = random.random() < 0.2
        if unlucky and self.mood == "dead":
            return
        if unlucky and self.mood == "late":
            await asyncio.sleep(TTL_MINUTES * 60 + 1)
        held = {"job_id": job["job_id"], "lock_token": job["lock_token"]}
        result: dict[str, Any] = {"success": True, "price": random.randint(1, 9), "currency": "USD"}
        if unlucky and self.mood == "failing":
            result = {"success": False, "error_code": "TIMEOUT"}
        sends = 3 if self.mood == "twice" else 1
        answers = await asyncio.gather(*(self.call("submit", held | result) for _ in range(sends)))
        for answer in answers:
            self.note(job["job_id"], answer)

    def note(self, job_id: str, answer: dict[str, Any]) -> None:
        if not answer["success"]:
            if answer["error"]["code"] != "lock_expired":
                self.work.wrong.append(f"submit: {answer['error']}")
        elif answer["data"]["status"] == "done":
            result_id = answer["data"]["result_id"]
            if self.work.done.setdefault(job_id, result_id) != result_id:
                self.work.wrong.append(f"{job_id} was answered with two results")


async def run_bots(system: System, work: Work, stop: asyncio.Event) -> None:
    limits = httpx2.Limits(max_connections=100)
    async with httpx2.AsyncClient(base_url=system.url, timeout=10, limits=limits) as client:
        bots = [
            Bot(name, MOODS[number % len(MOODS)], client, work, stop)
            for number, name in enumerate(work.tokens)
        ]
        await asyncio.gather(*(bot.live() for bot in bots))


async def create_projects(system: System, work: Work, stop: asyncio.Event) -> None:
    """A project every few seconds through the API, sent again until it is answered."""
    headers = {"authorization": f"Bearer {work.key}"}
    async with httpx2.AsyncClient(base_url=system.url, timeout=10, headers=headers) as client:
        while not stop.is_set():
            name = f"soak-{len(work.projects)}"
            project = {
                "project_id": name,
                "brand_keywords": [f"{name} một", f"{name} hai"],
                "limit_per_keyword": 30,
            }
            while not await _created(client, project, work):
                await asyncio.sleep(_TRY_AGAIN)
            work.projects.append(name)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), PROJECT_EVERY_SECONDS)


async def _created(client: httpx2.AsyncClient, project: dict[str, Any], work: Work) -> bool:
    try:
        answer = await client.post("/api/v1/projects", json=project)
    except httpx2.TransportError:
        work.no_answer += 1
        return False
    work.statuses[answer.status_code] += 1
    if answer.status_code >= 500 and answer.status_code != 503:
        work.wrong.append(f"projects: {answer.status_code} {answer.text[:200]}")
    return answer.status_code < 300


async def storm(system: System, seconds: float, chance: random.Random) -> None:
    """Something is killed or stopped every few seconds, in no good order."""
    ends = time.monotonic() + seconds
    names = list(system.roles)
    while time.monotonic() < ends:
        await asyncio.sleep(chance.uniform(3, 8))
        match chance.randrange(12):
            case 0:
                await system.kill_postgres()
            case 1:
                await system.kill_rabbitmq()
            case 2:
                await system.kill_redis()
            case 3 | 4:
                await system.kill_api_worker()
            case 5 | 6:
                await system.pause_role(chance.choice(names), chance.uniform(1, 5))
            case _:
                await system.kill_role(chance.choice(names))
