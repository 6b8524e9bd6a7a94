"""Days of an adaptive fleet in minutes: a clock that is moved by hand, real PostgreSQL, the real API, two schedulers."""

import asyncio
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import exp
from random import Random
from typing import Any

import httpx2

from opilio.clock import FixedClock
from opilio.contracts.policies import PolicyPatch
from opilio.crawl.policies import Draft
from opilio.runtime.bootstrap import Opilio
from opilio.web.app import create_app, serve_beside

TICK = timedelta(minutes=15)  # the bucket of a budget holds 20 minutes
TICKS_A_DAY = timedelta(days=1) // TICK
FAILURES, KILLS = 0.03, 0.01


@dataclass
class Pages:
    """Pages that change at random; a visit sees how often they did."""

    urls: list[str]
    changes: dict[str, list[float]]

    @classmethod
    def random(cls, count: int, days: int, seed: int = 1) -> "Pages":
        random = Random(seed)
        changes: dict[str, list[float]] = {}
        for page in range(count):
            rate = min(max(exp(random.gauss(-2.0, 2.0)), 0.001), 50.0)
            times, at = [], random.expovariate(rate)
            while at < days + 1:
                times.append(at)
                at += random.expovariate(rate)
            changes[f"https://host{page % 40}.example/{page}"] = times
        return cls(list(changes), changes)

    def version(self, url: str, day: float) -> int:
        return bisect_right(self.changes[url], day)


@dataclass
class Run:
    """What happened."""

    per_day: list[int] = field(default_factory=list)
    accepted: int = 0
    failed: int = 0
    lost: int = 0
    longest_gap: dict[str, float] = field(default_factory=dict)
    visited: int = 0
    """Policies with a successful visit."""
    prices: list[float] = field(default_factory=list)


@asynccontextmanager
async def api(opilio: Opilio):
    app = create_app(opilio)
    transport = httpx2.ASGITransport(app=app)
    async with (
        serve_beside(app, opilio),
        httpx2.AsyncClient(transport=transport, base_url="http://opilio.test", timeout=120) as http,
    ):
        _, token = await opilio.credentials.new_bot_token("bot-1")
        http.headers["authorization"] = f"Bearer {token}"
        yield http


async def live(
    first: Opilio,
    second: Opilio,
    clock: FixedClock,
    pages: Pages,
    days: int,
    seed: int = 1,
    progress: Callable[[str], None] = lambda _: None,
) -> Run:
    """Creates the policies and lives through the days; the second scheduler works beside the first."""
    random, run = Random(seed), Run()
    drafts = [
        Draft(row, url, PolicyPatch(schedule="adaptive", priority=row % 101, max_retries=1))
        for row, url in enumerate(pages.urls)
    ]
    await first.policies.import_drafts(drafts)
    start, seen_at = clock.at, {}
    async with api(first) as http:
        for tick in range(int(timedelta(days=days) / TICK)):
            day = (clock.at - start) / timedelta(days=1)
            await asyncio.gather(*(opilio.budgets.refit() for opilio in (first, second)))
            evening = tick % TICKS_A_DAY == TICKS_A_DAY - 1
            if evening:
                await asyncio.gather(*(opilio.budgets.refit_priors() for opilio in (first, second)))
            await asyncio.gather(*(opilio.sibling_changes.run_once() for opilio in (first, second)))
            await asyncio.gather(*(opilio.scheduler.create_due() for opilio in (first, second)))
            if tick % 3 == 2:
                await asyncio.gather(*(opilio.lock_expiry.run_once() for opilio in (first, second)))
            await _crawl(http, pages, day, random, run, seen_at)
            if evening:
                async with first.database.session() as session:
                    row = await session.connection.fetchrow("select created, price from crawl_pool")
                run.per_day.append(row["created"] - sum(run.per_day))
                run.prices.append(row["price"])
                progress(f"day {len(run.per_day)}: {run.per_day[-1]} crawls at a price of {row['price']:.4g}")
            clock.at += TICK
    run.visited = len(seen_at)
    for url in pages.urls:  # a page that waits at the end, or was never visited, counts as well
        run.longest_gap[url] = max(run.longest_gap.get(url, 0.0), days - seen_at.get(url, 0.0))
    return run


async def _crawl(
    http: Any, pages: Pages, day: float, random: Random, run: Run, seen_at: dict[str, float]
) -> None:
    """A bot takes what there is; some crawls fail, some bots are killed."""
    while True:
        pulled = await http.post("/api/crawl/pull/", json={"bot_id": "bot-1", "max_jobs": 100})
        assert pulled.status_code == 200, pulled.text
        jobs = pulled.json()["data"]["jobs"]
        if not jobs:
            return
        results = []
        for job in jobs:
            chance = random.random()
            if chance < KILLS:
                run.lost += 1
                continue
            one = {"job_id": job["job_id"], "lock_token": job["lock_token"]}
            if chance < KILLS + FAILURES:
                one |= {"success": False, "error_code": "TIMEOUT"}
            else:
                one |= {"success": True, "price": pages.version(job["url"], day), "currency": "EUR"}
                gap = day - seen_at.get(job["url"], day)
                run.longest_gap[job["url"]] = max(gap, run.longest_gap.get(job["url"], 0.0))
                seen_at[job["url"]] = day
            results.append(one)
        if results:
            answer = await http.post("/api/crawl/submit/batch/", json={"bot_id": "bot-1", "results": results})
            assert answer.status_code == 200, answer.text
            told = Counter(
                item["data"]["status"] if item["success"] else "refused"
                for item in answer.json()["data"]["results"]
            )
            assert not told["refused"], answer.text
            run.accepted += told["done"]
            run.failed += told["pending"] + told["failed"]


def start_of_day() -> datetime:
    from datetime import UTC

    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
