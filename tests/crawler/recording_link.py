"""A link that keeps what is published, and tasks to hand in."""

from datetime import UTC, datetime

import msgspec

from opilio.bus import Message
from opilio.contracts.collector import CrawlTask


class RecordingLink:
    def __init__(self) -> None:
        self.published: list[tuple[str, str, dict, dict]] = []

    async def consume(self, queue, handler, *, prefetch=1):
        raise NotImplementedError

    async def publish(self, exchange, routing_key, body, **more) -> None:
        self.published.append((exchange, routing_key, msgspec.json.decode(body), more))

    def results(self) -> list[dict]:
        return [body for _, key, body, _ in self.published if key.endswith(".result")]

    def events(self) -> list[dict]:
        return [body["payload"] for _, key, body, _ in self.published if key == "data.collected"]


def a_task(platform="tiktok", limit=50, job_id="proj123-brand-0", attempt=1) -> CrawlTask:
    return CrawlTask(
        job_id=job_id, platform=platform, task_type="research_and_crawl", keywords=["iphone"], limit=limit,
        payload={}, attempt=attempt, max_attempts=3, emitted_at=datetime.now(UTC),
    )  # fmt: skip


def a_message(task: CrawlTask) -> Message:
    headers = {"x-attempt": task.attempt}
    return Message(msgspec.json.encode(task), "q", "", "q", "m", task.job_id, headers)
