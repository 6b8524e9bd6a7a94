"""Simulated crawlers with the faults of real ones: slow, limited, blocked, crashing, repeating results."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
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
class Faults:
    """The share of tasks, 0 to 1, with each fault, and the time per post."""

    fails_once: float = 0.12
    fails_finally: float = 0.02
    stops_halfway: float = 0.03
    crashes: float = 0.01  # takes the task and never answers
    repeats_result: float = 0.10
    slow: float = 0.05
    seconds_per_post: float = 0.02


NO_FAULTS = Faults(0, 0, 0, 0, 0, 0, 0)


class SimulatedCrawler(Crawler):
    """A crawler of a simulated platform; the seed decides the faults, so runs can be repeated."""

    def __init__(
        self, platform: Platform, link: Any, store: Any, *, faults: Faults | None = None, **more: Any
    ) -> None:
        super().__init__(
            platform.name, self.search, link, store, version=f"simulated_{platform.name}_v1", **more
        )
        self._platform = platform
        self._faults = faults or Faults()

    def _chance(self, task: CrawlTask, what: str) -> random.Random:
        return random.Random(f"{self._platform.seed}/{task.platform}/{task.job_id}/{what}")

    async def search(self, task: CrawlTask) -> AsyncIterator[Yielded]:
        faults, chance = self._faults, self._chance(task, "fault")
        draw, halfway = chance.random(), chance.random() < faults.stops_halfway
        if draw < faults.fails_finally:
            raise CrawlFailed(chance.choice(_FINAL), "the platform refuses this search")
        if draw < faults.fails_finally + faults.fails_once and task.attempt == 1:
            raise CrawlFailed(chance.choice(_RETRYABLE), "the platform is busy, try again later")
        pause = faults.seconds_per_post * (10 if chance.random() < faults.slow else 1)
        for number, yielded in enumerate(self._posts(task)):
            if pause:
                await asyncio.sleep(pause)
            if halfway and number > task.limit // 2:
                raise CrawlFailed("CRAWL_PARTIAL", "the session ended in the middle")
            yield yielded

    def _posts(self, task: CrawlTask) -> Iterator[Yielded]:
        if task.task_type == "crawl_links":
            return self._platform.fetch(task.payload.get("content_ids", []))
        return self._platform.search(task.keywords[0] if task.keywords else "", task.limit)

    async def handle(self, message: Message) -> Verdict:
        if self._crashes(message):
            return Ack()
        return await super().handle(message)

    def _crashes(self, message: Message) -> bool:
        attempt = message.headers.get("x-attempt", 1)
        chance = random.Random(
            f"{self._platform.seed}/{self.platform}/{message.correlation_id}/{attempt}/crash"
        )
        return chance.random() < self._faults.crashes

    async def _publish_result(self, task: CrawlTask, result: CrawlerResult) -> None:
        await super()._publish_result(task, result)
        if self._chance(task, "repeat").random() < self._faults.repeats_result:
            await super()._publish_result(task, result)
