"""Projects at work: every role that a project needs, and crawlers of platforms that do not exist, in this process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from unittest.mock import patch
from uuid import UUID

from prometheus_client import CollectorRegistry

from opilio.adapters.buckets import Buckets
from opilio.contracts.projects import ProjectInput
from opilio.contracts.topology import RESULTS
from opilio.crawler.search import Item
from opilio.crawler.simulator import NO_FAULTS, Faults, Platform, SimulatedCrawler
from opilio.runtime.bootstrap import Opilio, open_bus
from opilio.runtime.roles import analytics, collector, delivery

BUCKET = "crawl-data"


@asynccontextmanager
async def listening(
    opilio: Opilio, *, faults: Faults = NO_FAULTS, platforms: tuple[Any, ...] | None = None
) -> AsyncIterator[None]:
    """Collector, analytics and delivery as `opilio up` runs them, beside simulated crawlers."""
    # The role counts for its process; here it starts again and again in one.
    with patch.object(analytics, "REGISTRY", CollectorRegistry()):
        async with _at_work(opilio, faults, platforms):
            yield


@asynccontextmanager
async def _at_work(opilio: Opilio, faults: Faults, platforms: tuple[Any, ...] | None) -> AsyncIterator[None]:
    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        bus = await stack.enter_async_context(open_bus(opilio.settings, opilio.database))
        store = Buckets(opilio.settings.blobs).store(BUCKET)
        chosen = platforms or tuple(Platform(name, 7) for name in opilio.settings.platforms)
        crawlers = [
            SimulatedCrawler(platform, bus, store, faults=faults, bucket=BUCKET) for platform in chosen
        ]
        roles = [role.serve(opilio, stop) for role in (collector, analytics, delivery)]
        work = [asyncio.create_task(part) for part in (*roles, *(crawler.run(stop) for crawler in crawlers))]
        try:
            yield
        finally:
            stop.set()
            await asyncio.gather(*work)


class EvilPlatform:
    """Every text of every post is somebody's attempt."""

    def __init__(self, name: str, payload: str) -> None:
        self.name = name
        self.seed = 7
        self._payload = payload

    def search(self, keyword: str, limit: int) -> Any:
        for number in range(3):
            yield Item(
                id=f"{self.name}-{number}",
                content={"text": f"tệ quá, thất vọng {self._payload}", "hashtags": [self._payload]},
                author={"id": "1", "name": self._payload, "username": self._payload, "followers": 9_000_000},
                interaction={"views": 9_000_000, "likes": 900_000, "comments_count": 5},
                comments=[{"id": "c", "text": self._payload, "user": {"name": self._payload}}],
                meta={"permalink": f"javascript:window.hacked=1//{self._payload}", "lang": "vi"},
            )


async def finished(opilio: Opilio, project_id: str, seconds: float = 60) -> None:
    """Counted to its end, and all that it gave rise to is told."""
    async with asyncio.timeout(seconds):
        while (await opilio.project_insights.project(project_id)).status != "DONE":
            await asyncio.sleep(0.1)
        while (await opilio.figures.system_status()).outbox:
            await asyncio.sleep(0.1)


async def one_dead_letter(opilio: Opilio) -> UUID:
    """A result that nobody can read, given up."""
    async with open_bus(opilio.settings, opilio.database) as bus:
        await bus.publish(RESULTS, "crawler.tiktok.result", b"{ no JSON at all")
    return await dead_letter_other_than(opilio, None)


async def dead_letter_other_than(opilio: Opilio, known: UUID | None) -> UUID:
    """The newest dead letter, once there is one that is not known."""
    async with asyncio.timeout(20):
        while not (found := [x for x in (await opilio.dead_letters.page()).items if x.id != known]):
            await asyncio.sleep(0.1)
    return found[0].id


async def fill_projects(opilio: Opilio, webhook_url: str | None = None) -> None:
    """One that is finished, with everything that happens to projects; one that waits for its crawlers."""
    await opilio.projects.create(
        ProjectInput(
            project_id="tea",
            brand_name="Trà sữa",
            brand_keywords=["trà sữa", "trà đào"],
            competitor_keywords={"Phúc An": ["cà phê sữa"], "Cold": ["cold brew"]},
            limit_per_keyword=30,
            webhook_url=webhook_url,
        ),
        by="operator:admin",
    )
    # Some searches are refused for good, and no time is lost with others.
    async with listening(opilio, faults=Faults(0, 0.2, 0, 0, 0, 0, 0)):
        await one_dead_letter(opilio)
        await finished(opilio, "tea")
    await opilio.projects.create(
        ProjectInput(project_id="shoes-2026", brand_name="Running shoes", brand_keywords=["wind", "rain"]),
        by="operator:linh",
    )
