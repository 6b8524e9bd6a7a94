"""Crawlers as they are: slow, limited, blocked, dead in the middle, and saying things twice."""

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from opilio.bus import Ack, Message, Verdict
from opilio.contracts.collector import CrawlerResult, CrawlTask
from opilio.crawler.crawler import Crawler
from opilio.crawler.search import CrawlFailed, Yielded
from opilio.crawler.simulator.platform import Platform

_RETRYABLE = ("SEARCH_FAILED", "RATE_LIMITED", "TIMEOUT", "NETWORK_ERROR")
_FINAL = ("RATE_LIMITED_PERMANENT", "AUTH_FAILED", "INVALID_KEYWORD", "BLOCKED")


@dataclass(frozen=True, slots=True)
class Troubles:
    """Shares of tasks, 0 to 1, that meet with each trouble, and how fast a platform answers."""

    fails_once: float = 0.12
    fails_for_good: float = 0.02
    stops_halfway: float = 0.03
    dies: float = 0.01  # takes the task and is never heard of again
    says_twice: float = 0.10
    slow: float = 0.05
    seconds_per_post: float = 0.02


Calm = Troubles(0, 0, 0, 0, 0, 0, 0)


class SimulatedCrawler(Crawler):
    """A crawler of a simulated platform. What befalls a task is drawn from the seed: runs can be repeated."""

    def __init__(
        self, platform: Platform, link: Any, store: Any, *, troubles: Troubles | None = None, **more: Any
    ) -> None:
        super().__init__(
            platform.name, self.search, link, store, version=f"simulated_{platform.name}_v1", **more
        )
        self._world = platform
        self._troubles = troubles or Troubles()

    def _chance(self, task: CrawlTask, what: str) -> random.Random:
        return random.Random(f"{self._world.seed}/{task.platform}/{task.job_id}/{what}")

    async def search(self, task: CrawlTask) -> AsyncIterator[Yielded]:
        troubles, chance = self._troubles, self._chance(task, "trouble")
        draw, halfway = chance.random(), chance.random() < troubles.stops_halfway
        if draw < troubles.fails_for_good:
            raise CrawlFailed(chance.choice(_FINAL), "the platform refuses this search")
        if draw < troubles.fails_for_good + troubles.fails_once and task.attempt == 1:
            raise CrawlFailed(chance.choice(_RETRYABLE), "the platform is busy, try again later")
        pause = troubles.seconds_per_post * (10 if chance.random() < troubles.slow else 1)
        keyword = task.keywords[0] if task.keywords else ""
        for number, yielded in enumerate(self._world.search(keyword, task.limit)):
            if pause:
                await asyncio.sleep(pause)
            if halfway and number > task.limit // 2:
                raise CrawlFailed("CRAWL_PARTIAL", "the session ended in the middle")
            yield yielded

    async def handle(self, message: Message) -> Verdict:
        if self._dies(message):
            return Ack()
        return await super().handle(message)

    def _dies(self, message: Message) -> bool:
        attempt = message.headers.get("x-attempt", 1)
        chance = random.Random(f"{self._world.seed}/{self.platform}/{message.correlation_id}/{attempt}/death")
        return chance.random() < self._troubles.dies

    async def _tell(self, task: CrawlTask, result: CrawlerResult) -> None:
        await super()._tell(task, result)
        if self._chance(task, "twice").random() < self._troubles.says_twice:
            await super()._tell(task, result)
