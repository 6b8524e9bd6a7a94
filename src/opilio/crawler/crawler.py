"""Runs a search for every task: stores batches, publishes their events and one result, then acknowledges."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Protocol
from uuid import NAMESPACE_URL, uuid5

import msgspec
import obstore
import zstandard
from obstore.exceptions import BaseError
from obstore.store import ObjectStore

from opilio.bus import Ack, Consumer, DeadLetter, Handler, Headers, Message, Verdict
from opilio.contracts.collector import DATA_COLLECTED, CollectedBatch, CrawlerResult, CrawlTask, DataCollected
from opilio.contracts.topology import LIFECYCLE, RESULTS, task_queue
from opilio.crawler.search import CrawlFailed, Search, Yielded
from opilio.crawler.task_output import TaskOutput
from opilio.logs import get_logger
from opilio.project_id import extract_project_id

log = get_logger(__name__)
BATCH_SIZES: Mapping[str, int] = {"tiktok": 50, "youtube": 20}
_USUAL_BATCH = 50
_REMEMBERED = 64  # few, because results contain their items
_encode = msgspec.json.Encoder().encode
_TRACE: ContextVar[Any] = ContextVar("trace", default=None)  # of the task that is being crawled
_decode = msgspec.json.Decoder(CrawlTask).decode


class Link(Protocol):
    """What a crawler needs of a bus: `AmqpLink`, or any `opilio.bus.Bus` (the local one included)."""

    async def consume(self, queue: str, handler: Handler, *, prefetch: int = 1) -> Consumer: ...

    async def publish(
        self,
        exchange: str,
        routing_key: str,
        body: bytes,
        *,
        headers: Headers | None = None,
        message_id: str | None = None,
        correlation_id: str | None = None,
    ) -> None: ...


class NotStored(CrawlFailed):
    """A batch could not be stored."""


class Batches:
    """Stores and announces the batches of a task as they fill, numbered from 1."""

    def __init__(self, crawler: "Crawler", task: CrawlTask, output: TaskOutput) -> None:
        self._crawler = crawler
        self._task = task
        self._output = output
        self._number = 0

    async def send_full(self) -> None:
        await self._send(rest=False)

    async def send_rest(self) -> None:
        await self._send(rest=True)

    async def _send(self, *, rest: bool) -> None:
        for batch in self._output.batches(self._crawler.batch_size, rest=rest):
            self._number += 1
            await self._crawler.store_batch(self._task, self._number, batch, self._output.crawl_id)


class Crawler:
    """One platform's crawler. A failure is reported by its code; the collector decides about retries."""

    def __init__(
        self,
        platform: str,
        search: Search,
        link: Link,
        store: ObjectStore,
        *,
        bucket: str,
        at_once: int = 4,
        time_limit: float = 1_200,
        batch_size: int | None = None,
        most_per_task: int = 1_000,
        version: str = "crawler_1.0",
        results: str = RESULTS,
        lifecycle: str = LIFECYCLE,
    ) -> None:
        self.platform = platform
        self._search = search
        self._link = link
        self._store = store
        self._bucket = bucket
        self._at_once = at_once
        self._time_limit = time_limit
        self.batch_size = batch_size or BATCH_SIZES.get(platform, _USUAL_BATCH)
        self._most = most_per_task
        self._version = version
        self._results = results
        self._lifecycle = lifecycle
        # A redelivered task is answered from memory, not crawled again.
        self._answered: OrderedDict[tuple[str, int], CrawlerResult] = OrderedDict()

    async def run(self, stop: asyncio.Event) -> None:
        """Crawls until `stop` is set; running tasks finish first."""
        consumer = await self._link.consume(
            task_queue(self.platform).name, self.handle, prefetch=self._at_once
        )
        try:
            await stop.wait()
        finally:
            await consumer.close()

    async def handle(self, message: Message) -> Verdict:
        try:
            task = _decode(message.body)
        except msgspec.DecodeError as error:
            return DeadLetter(f"not a task: {error}")
        _TRACE.set(message.headers.get("x-trace-id"))
        key = (task.job_id, task.attempt)
        result = self._answered.get(key) or await self.crawl(task)
        self._remember(key, result)
        await self._publish_result(task, result)
        return Ack()

    def _remember(self, key: tuple[str, int], result: CrawlerResult) -> None:
        self._answered[key] = result
        while len(self._answered) > _REMEMBERED:
            self._answered.popitem(last=False)

    async def crawl(self, task: CrawlTask) -> CrawlerResult:
        """Runs the author's search; batches are stored and announced as they fill."""
        output = TaskOutput(task, version=self._version, applied_limit=min(task.limit, self._most))
        batches = Batches(self, task, output)
        failure: CrawlFailed | None = None
        try:
            async with asyncio.timeout(self._time_limit), aclosing(self._yields(task)) as yields:
                async for yielded in yields:
                    output.add(yielded)
                    await batches.send_full()
                    if output.full:
                        break
        except CrawlFailed as failed:
            failure = failed
        except TimeoutError:
            failure = CrawlFailed("TIMEOUT", f"the crawl took longer than {self._time_limit:g} seconds")
        try:
            await batches.send_rest()
        except NotStored as error:
            failure = error
        if isinstance(failure, NotStored):
            output.discard()
        return output.result(failure)

    async def _yields(self, task: CrawlTask) -> AsyncGenerator[Yielded, None]:
        """Runs the search; an exception becomes a failure with a code."""
        try:
            async for yielded in self._search(task):
                yield yielded
        except CrawlFailed:
            raise
        except TimeoutError as error:
            raise CrawlFailed("TIMEOUT", str(error) or "the platform did not answer in time") from error
        except Exception as error:
            log.exception("crawler.search_failed", job_id=task.job_id, platform=self.platform)
            raise CrawlFailed("SEARCH_FAILED", f"{type(error).__name__}: {error}") from error

    async def store_batch(
        self, task: CrawlTask, number: int, batch: list[dict[str, Any]], crawl_id: str
    ) -> None:
        """Every run of a crawl has its own keys: what an earlier run stored is not overwritten while it is read."""
        key = f"crawl/{self.platform}/{task.job_id}/{crawl_id}/batch-{number:04d}.json.zst"
        try:
            await obstore.put_async(self._store, key, zstandard.compress(_encode(batch), 3))
        except (BaseError, OSError) as error:
            raise NotStored("UPLOAD_FAILED", f"{type(error).__name__}: {error}"[:500]) from error
        event_id = str(uuid5(NAMESPACE_URL, f"{self.platform}/{task.job_id}/{crawl_id}/{number}"))
        event = DataCollected(
            event_id=event_id,
            event_type=DATA_COLLECTED,
            timestamp=datetime.now(UTC),
            payload=CollectedBatch(
                minio_path=f"{self._bucket}/{key}",
                project_id=extract_project_id(task.job_id),
                brand_name=task.brand_name,
                crawl_id=crawl_id,
                job_id=task.job_id,
                batch_index=number,
                content_count=len(batch),
                fetch_error_count=sum(item["meta"]["fetch_status"] == "error" for item in batch),
                platform=self.platform,
                task_type=task.task_type,
                keyword=task.keywords[0] if task.keywords else None,
            ),
        )
        await self._link.publish(
            self._lifecycle,
            DATA_COLLECTED,
            _encode(event),
            headers=self._headers(task),
            message_id=event_id,
            correlation_id=task.job_id,
        )

    async def _publish_result(self, task: CrawlTask, result: CrawlerResult) -> None:
        await self._link.publish(
            self._results,
            f"crawler.{self.platform}.result",
            _encode(result),
            headers=self._headers(task),
            message_id=f"{self.platform}/{task.job_id}/{task.attempt}/result",
            correlation_id=task.job_id,
        )

    def _headers(self, task: CrawlTask) -> dict[str, Any]:
        headers = {"x-job-id": task.job_id, "x-platform": self.platform, "x-attempt": task.attempt}
        trace = _TRACE.get()
        return {**headers, "x-trace-id": trace} if trace else headers
