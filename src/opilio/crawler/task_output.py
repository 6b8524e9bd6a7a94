"""Keeps count of what a crawl yields, cuts it into batches, and tells it as the contract wants it told."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from opilio.contracts.collector import CrawlerResult, CrawlTask, LimitInfo, ResultError, Stats
from opilio.crawler.search import CrawlFailed, Failed, Found, Item, Skipped, Yielded

PARTIAL = "CRAWL_PARTIAL"


class Gathering:
    """One task's yield. Error items travel in batches, so that they are analysed; the result carries the rest."""

    def __init__(self, task: CrawlTask, *, version: str, applied_limit: int) -> None:
        self._task = task
        self._version = version
        self.applied_limit = applied_limit
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
        """What is yielded twice is skipped the second time: a platform's pages overlap."""
        if isinstance(yielded, Found):
            self._found = yielded.total
            return
        if yielded.id in self._seen or isinstance(yielded, Skipped):
            self.skipped += 1
            return
        self._seen.add(yielded.id)
        if isinstance(yielded, Item):
            told = self._item(yielded)
            self.items.append(told)
        else:
            told = self._error(yielded)
            self.failed += 1
        self.waiting.append(told)

    def batches(self, size: int, *, rest: bool = False) -> Iterator[list[dict[str, Any]]]:
        """Full batches; the last, short one only when there is no more to come."""
        while len(self.waiting) >= size or (rest and self.waiting):
            batch, self.waiting = self.waiting[:size], self.waiting[size:]
            yield batch

    def forget(self) -> None:
        """What could not be stored was not collected: the next attempt brings it again."""
        self.items, self.waiting, self.failed, self.skipped = [], [], 0, 0

    def result(self, failure: CrawlFailed | None = None) -> CrawlerResult:
        """The result of version 2, true to its own rules."""
        if failure is not None and self.items:
            failure = CrawlFailed(PARTIAL, f"{failure.code}: {failure.message}")
        # A search that ended below the limit has seen all there is, whatever the platform promised.
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
        told = {
            "fetch_error": failed.message or failed.code,
            "error_code": failed.code,
            "error_details": failed.details,
            "permalink": failed.permalink,
        }
        return {
            "meta": self._meta(failed.id, "error", told),
            "content": {},
            "interaction": {},
            "author": {},
            "comments": [],
        }
