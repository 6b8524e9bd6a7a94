"""Counts what a search yields, splits it into batches and builds the result."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from opilio.contracts.collector import CrawlerResult, CrawlTask, LimitInfo, ResultError, Stats
from opilio.crawler.search import CrawlFailed, Failed, Found, Item, Skipped, Yielded

PARTIAL = "CRAWL_PARTIAL"


class TaskOutput:
    """The output of one task. Failed items are in the batches, but not in the payload of the result."""

    def __init__(self, task: CrawlTask, *, version: str, applied_limit: int) -> None:
        self._task = task
        self._version = version
        self.applied_limit = applied_limit
        self.crawl_id = uuid4().hex  # names this run in its result and its batches
        self._found: int | None = None
        self._seen: set[str] = set()
        self.items: list[dict[str, Any]] = []
        self.waiting: list[dict[str, Any]] = []
        self.failed = 0
        self.skipped = 0

    @property
    def tried(self) -> int:
        return len(self.items) + self.failed + self.skipped

    @property
    def full(self) -> bool:
        return self.tried >= self.applied_limit

    def add(self, yielded: Yielded) -> None:
        """Adds one yielded value; an id seen before is counted as skipped, because pages overlap."""
        if isinstance(yielded, Found):
            self._found = yielded.total
            return
        if yielded.id in self._seen or isinstance(yielded, Skipped):
            self.skipped += 1
            return
        self._seen.add(yielded.id)
        if isinstance(yielded, Item):
            item = self._item(yielded)
            self.items.append(item)
        else:
            item = self._error(yielded)
            self.failed += 1
        self.waiting.append(item)

    def batches(self, size: int, *, rest: bool = False) -> Iterator[list[dict[str, Any]]]:
        """Full batches; with `rest` also the last, shorter one."""
        while len(self.waiting) >= size or (rest and self.waiting):
            batch, self.waiting = self.waiting[:size], self.waiting[size:]
            yield batch

    def discard(self) -> None:
        """Drops everything, because it could not be stored; the next attempt collects it again."""
        self.items, self.waiting, self.failed, self.skipped = [], [], 0, 0

    def result(self, failure: CrawlFailed | None = None) -> CrawlerResult:
        """The result in version 2."""
        if failure is not None and self.items:
            failure = CrawlFailed(PARTIAL, f"{failure.code}: {failure.message}")
        # A search that ended below the limit has found everything, whatever total the platform reported.
        ended_early = failure is None and not self.full
        found = self.tried if ended_early else max(self._found or 0, self.tried)
        return CrawlerResult(
            success=failure is None,
            task_type=self._task.task_type,
            limit_info=LimitInfo(
                requested_limit=self._task.limit,
                applied_limit=self.applied_limit,
                total_found=found,
                platform_limited=failure is None and found < self._task.limit,
            ),
            stats=Stats(
                successful=len(self.items),
                failed=self.failed,
                skipped=self.skipped,
                completion_rate=round(len(self.items) / found, 4) if found else 0.0,
            ),
            error=None if failure is None else ResultError(code=failure.code, message=failure.message),
            payload=self.items,
            job_id=self._task.job_id,
            platform=self._task.platform,
            attempt=self._task.attempt,
            crawl_id=self.crawl_id,
            emitted_at=datetime.now(UTC),
        )

    def _meta(self, id_: str, status: str, more: dict[str, Any]) -> dict[str, Any]:
        task = self._task
        return {
            "id": id_,
            "crawled_at": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            "keyword_source": task.keywords[0] if task.keywords else None,
            "pipeline_version": self._version,
            **more,
            "platform": task.platform,
            "job_id": task.job_id,
            "task_type": task.task_type,
            "fetch_status": status,
        }

    def _item(self, item: Item) -> dict[str, Any]:
        return {
            "meta": self._meta(item.id, "success", {"fetch_error": None, **item.meta}),
            "content": item.content,
            "interaction": item.interaction,
            "author": item.author,
            "comments": item.comments,
        }

    def _error(self, failed: Failed) -> dict[str, Any]:
        error = {
            "fetch_error": failed.message or failed.code,
            "error_code": failed.code,
            "error_details": failed.details,
            "permalink": failed.permalink,
        }
        return {
            "meta": self._meta(failed.id, "error", error),
            "content": {},
            "interaction": {},
            "author": {},
            "comments": [],
        }
