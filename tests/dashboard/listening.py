"""Projects at work: every role that a project needs, and crawlers of platforms that do not exist, in this process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from unittest.mock import patch

from prometheus_client import CollectorRegistry

from opilio.adapters.buckets import Buckets
from opilio.contracts.projects import ProjectInput
from opilio.crawler.author import Item
from opilio.crawler.simulator import Calm, Platform, SimulatedCrawler, Troubles
from opilio.runtime import analytics, collector, delivery
from opilio.runtime.bootstrap import Opilio, open_bus

BUCKET = "crawl-data"


@asynccontextmanager
async def listening(
    opilio: Opilio, *, troubles: Troubles = Calm, platforms: tuple[Platform, ...] | None = None
) -> AsyncIterator[None]:
    """Collector, analytics and delivery as `opilio up` runs them, beside simulated crawlers."""
    # The role counts for its process; here it starts again and again in one.
    with patch.object(analytics, "REGISTRY", CollectorRegistry()):
        async with _at_work(opilio, troubles, platforms):
            yield


@asynccontextmanager
async def _at_work(
    opilio: Opilio, troubles: Troubles, platforms: tuple[Platform, ...] | None
) -> AsyncIterator[None]:
    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        bus = await stack.enter_async_context(open_bus(opilio.settings, opilio.database))
        store = Buckets(opilio.settings.blobs).store(BUCKET)
        chosen = platforms or tuple(Platform(name, 7) for name in opilio.settings.platforms)
        crawlers = [
            SimulatedCrawler(platform, bus, store, troubles=troubles, bucket=BUCKET) for platform in chosen
        ]
        roles = [role.serve(opilio, stop) for role in (collector, analytics, delivery)]
        work = [asyncio.create_task(part) for part in (*roles, *(crawler.run(stop) for crawler in crawlers))]
        try:
            yield
        finally:
            stop.set()
            await asyncio.gather(*work)


class EvilPlatform(Platform):
    """Every text of every post is somebody's attempt."""

    def __init__(self, name: str, payload: str) -> None:
        super().__init__(name, 7)
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
    async with asyncio.timeout(seconds):
        while (await opilio.project_insights.project(project_id)).status != "DONE":
            await asyncio.sleep(0.1)


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
    async with listening(opilio, troubles=Troubles(0, 0.2, 0, 0, 0, 0, 0)):
        await finished(opilio, "tea")
    await opilio.projects.create(
        ProjectInput(project_id="shoes-2026", brand_name="Running shoes", brand_keywords=["wind", "rain"]),
        by="operator:linh",
    )
