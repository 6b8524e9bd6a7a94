"""A crawl in small: short words for what policies, bots and operators do."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from opilio.adapters.postgres import Database
from opilio.clock import FixedClock
from opilio.contracts.bot_api import Outcome, PullAnswer, PulledJob
from opilio.contracts.policies import PolicyInput, PolicyPatch
from opilio.crawl.claims import Reply
from opilio.crawl.policies import Draft
from opilio.crawl.pull import Pull
from opilio.crawl.submission import Submission, parse
from opilio.lock_rules import Claim
from opilio.runtime.bootstrap import Opilio

AUDIT = (Path(__file__).parent / "audit.sql").read_text()


@dataclass
class Farm:
    """Everything wired on one database, and short words for what bots and operators do."""

    opilio: Opilio
    clock: FixedClock
    made: int = 0

    @property
    def database(self) -> Database:
        return self.opilio.database

    def later(self, **span: float) -> None:
        self.clock.at += timedelta(**span)

    async def policy(self, url: str | None = None, **fields: Any) -> UUID:
        self.made += 1
        return await self.opilio.policies.create(
            PolicyInput(url=url or f"https://shop.example/{self.made}", **fields)
        )

    async def policies(self, count: int, *, host: str = "shop.example", **fields: Any) -> list[UUID]:
        drafts = [Draft(n, f"https://{host}/{n}", PolicyPatch(**fields)) for n in range(count)]
        await self.opilio.policies.import_drafts(drafts)
        found = await self.rows("select policy_id from policy where url = any($1)", [d.url for d in drafts])
        return [row["policy_id"] for row in found]

    async def due(self) -> int:
        return (await self.opilio.scheduler.create_due()).created

    async def ask(self, bot: str = "bot-1", most: int = 10, **wish: Any) -> PullAnswer:
        return await self.opilio.puller.pull(
            Pull(bot, most, tuple(wish.get("queues", ("http",))), wish.get("domain"))
        )

    async def pull(self, bot: str = "bot-1", most: int = 10, **wish: Any) -> list[PulledJob]:
        return (await self.ask(bot, most, **wish)).jobs

    async def one(self, bot: str = "bot-1", **fields: Any) -> PulledJob:
        """A fresh policy, its job, locked by a bot."""
        await self.policy(**fields)
        await self.due()
        (job,) = await self.pull(bot, 1)
        return job

    def sent(self, job: PulledJob, bot: str = "bot-1", *, token: bool = True, **fields: Any) -> Submission:
        body = {"success": True, "price": 9.99, "currency": "USD"} if fields.get("success", True) else {}
        body |= {"job_id": str(job.job_id), **({"lock_token": str(job.lock_token)} if token else {})} | fields
        return parse(bot, msgspec.json.decode(json.dumps(body), type=Outcome))

    async def submit(self, job: PulledJob, bot: str = "bot-1", **fields: Any) -> Reply:
        return (await self.opilio.submitter.submit([self.sent(job, bot, **fields)]))[0]

    async def fail(self, job: PulledJob, bot: str = "bot-1", **fields: Any) -> Reply:
        return await self.submit(job, bot, success=False, **fields)

    async def beat(self, job: PulledJob, bot: str = "bot-1") -> Reply:
        return (await self.opilio.heartbeats.heartbeat([held(job, bot)]))[0]

    async def release(self, job: PulledJob, bot: str = "bot-1") -> Reply:
        return (await self.opilio.heartbeats.release([held(job, bot)]))[0]

    async def rows(self, sql: str, *args: Any) -> list[Any]:
        async with self.database.session() as session:
            rows: list[Any] = await session.connection.fetch(sql, *args)
        return rows

    async def value(self, sql: str, *args: Any) -> Any:
        rows = await self.rows(sql, *args)
        return rows[0][0] if rows else None

    async def walk(self, job_id: UUID) -> list[str]:
        """The states of a job's timeline."""
        return [row.to for row in await self.opilio.insights.timeline(job_id)]

    async def audit(self) -> None:
        faults = await self.rows(AUDIT)
        assert faults == [], [dict(fault) for fault in faults]


def held(job: PulledJob, bot: str = "bot-1") -> Claim:
    return Claim(bot, job.job_id, job.lock_token, b"")


def said(answer: Reply) -> dict[str, Any]:
    assert answer.refusal is None, answer.refusal
    assert answer.data is not None
    body = (
        answer.data
        if isinstance(answer.data, bytes)
        else msgspec.json.Encoder(decimal_format="number").encode(answer.data)
    )
    decoded: dict[str, Any] = msgspec.json.decode(body)
    return decoded


def refused(answer: Reply) -> str:
    assert answer.refusal is not None, answer.data
    return answer.refusal.code


FarmMaker = Callable[..., Farm]
