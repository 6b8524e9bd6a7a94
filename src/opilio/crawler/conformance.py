"""The conformance kit: sends tasks to a running crawler in any language and lists the rules it breaks.

`find_violations` holds the rules as a pure function; `ConformanceCheck` sends and receives.
"""

import asyncio
import gzip
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import aio_pika
import msgspec
import obstore
import zstandard
from aio_pika.abc import AbstractIncomingMessage
from obstore.exceptions import BaseError
from obstore.store import ObjectStore

from opilio.bus import CONTENT_ENCODING, CONTENT_TYPE, standard_headers
from opilio.contracts import consistency
from opilio.contracts.collector import CrawlerResult, CrawlTask, DataCollected
from opilio.contracts.topology import LIFECYCLE, RESULTS, Topology, task_queue, topology
from opilio.crawler.crawler import BATCH_SIZES
from opilio.rabbitmq.declare import Declaration

RULES: Mapping[str, str] = {
    "answers": "every task is answered by a result on collector.results, a failed one too",
    "readable": "a result is a JSON object of version 2, with limit_info and stats",
    "attribution": "a result names its job and platform, in its body or in x-job-id and x-platform",
    "attempt": "a result names the attempt of its task, in its body or in x-attempt",
    "headers": "messages are persistent JSON in UTF-8 with x-schema-version and x-trace-id",
    "task_type": "a result carries the task_type of its task",
    "requested_limit": "limit_info.requested_limit is the limit of the task",
    "within_limit": "no more items are tried than the task's limit",
    "error_code": "a failed result has an error with a code",
    "same_again": "the same task again gives a result of the same identity and figures",
    "announced": "every item of a result lies in a batch that data.collected announced",
    "batch_readable": "a batch can be fetched from object storage and holds content_count items",
    "batch_size": "a batch that is not the last holds as many items as the platform's batches do",
    "batch_meta": "every item of a batch names its job, platform and task_type",
    **consistency.DESCRIPTIONS,
}
_JSON = re.compile(r"application/json\b.*")
_ZSTD, _GZIP = b"\x28\xb5\x2f\xfd", b"\x1f\x8b"


class Violation(msgspec.Struct):
    """One rule, broken by the answers to one task."""

    rule: str
    task: str
    what: str


class Unfetched(Exception):
    """A batch that cannot be fetched or read; the text is the cause."""


class CrawlerMessage(msgspec.Struct):
    """A message of the crawler."""

    body: bytes
    headers: dict[str, Any] = {}
    content_type: str | None = CONTENT_TYPE
    content_encoding: str | None = CONTENT_ENCODING
    persistent: bool = True
    correlation_id: str | None = None


class TaskAnswers(msgspec.Struct):
    """All messages of a crawler about one task, and the batches that it announced."""

    task: CrawlTask
    results: list[CrawlerMessage] = []
    events: list[CrawlerMessage] = []
    batches: dict[str, list[Any]] = {}
    faults: dict[str, str] = {}  # why a batch cannot be fetched or read
    repeated: bool = False


# ── the rules ────────────────────────────────────────────────────────────────────────────────────


def find_violations(answer: TaskAnswers) -> list[Violation]:
    """Every rule that the answers break, once."""
    named = f"{answer.task.job_id} (attempt {answer.task.attempt}, limit {answer.task.limit})"
    found = dict(_violations(answer))
    return [Violation(rule, named, what) for rule, what in found.items()]


def _violations(answer: TaskAnswers) -> Iterator[tuple[str, str]]:
    if not answer.results:
        yield "answers", "no result came"
        return
    for message in [*answer.results, *answer.events]:
        yield from _envelope(message)
    try:
        results = [msgspec.json.decode(message.body, type=CrawlerResult) for message in answer.results]
    except msgspec.DecodeError as error:
        yield "readable", str(error)
        return
    for result, message in zip(results, answer.results, strict=True):
        yield from _result(answer.task, result, message)
    yield from _repetition(answer, results)
    yield from _batches(answer, results[0])


def _envelope(message: CrawlerMessage) -> Iterator[tuple[str, str]]:
    if not _JSON.fullmatch(message.content_type or ""):
        yield "headers", f"content_type is {message.content_type}"
    if (message.content_encoding or "").lower() != CONTENT_ENCODING:
        yield "headers", f"content_encoding is {message.content_encoding}"
    if not message.persistent:
        yield "headers", "delivery_mode is not 2"
    for name in ("x-schema-version", "x-trace-id"):
        if name not in message.headers:
            yield "headers", f"{name} is missing"


def _result(task: CrawlTask, result: CrawlerResult, message: CrawlerMessage) -> Iterator[tuple[str, str]]:
    job_id = result.job_id or message.headers.get("x-job-id") or message.correlation_id
    platform = result.platform or message.headers.get("x-platform")
    if (job_id, platform) != (task.job_id, task.platform):
        yield "attribution", f"it names the job {job_id!r} on {platform!r}"
    attempt = result.attempt or message.headers.get("x-attempt")
    if str(attempt) != str(task.attempt):
        yield "attempt", f"it names the attempt {attempt!r}"
    if result.task_type != task.task_type:
        yield "task_type", f"it says {result.task_type!r}"
    if not result.success and (result.error is None or not result.error.code):
        yield "error_code", "error.code is missing"
    if result.limit_info is None or result.stats is None:
        yield "readable", "limit_info or stats is missing: that is the old format"
        return
    limit, stats = result.limit_info, result.stats
    if limit.requested_limit != task.limit:
        yield "requested_limit", f"it says {limit.requested_limit}"
    if stats.successful + stats.failed + stats.skipped > task.limit:
        yield "within_limit", f"{stats.successful + stats.failed + stats.skipped} items were tried"
    for rule in consistency.of_result(result.success, limit, stats, [_meta(item) for item in result.payload]):
        yield rule, consistency.DESCRIPTIONS[rule]


def _meta(item: Any) -> consistency.Meta:
    meta = item.get("meta") if isinstance(item, dict) else None
    if not isinstance(meta, dict):
        return None, None, None
    return meta.get("job_id"), meta.get("platform"), meta.get("task_type")


def _repetition(answer: TaskAnswers, results: Sequence[CrawlerResult]) -> Iterator[tuple[str, str]]:
    """A crawler may publish a result twice, or get a task twice: the results must be equal."""
    if answer.repeated and len(results) < 2:
        yield "same_again", "the same task again was not answered"
    distinct = {
        (result.attempt, result.cursor, result.success, msgspec.json.encode(result.stats))
        for result in results
    }
    if len(distinct) > 1:
        yield "same_again", f"{len(distinct)} different results for one attempt"


def _batches(answer: TaskAnswers, result: CrawlerResult) -> Iterator[tuple[str, str]]:
    task = answer.task
    try:
        events = [msgspec.json.decode(message.body, type=DataCollected).payload for message in answer.events]
    except msgspec.DecodeError as error:
        yield "announced", f"data.collected cannot be read: {error}"
        return
    announced = {event.minio_path: event for event in events}
    stored: list[Any] = []
    last = max((event.batch_index for event in events), default=0)
    for path, event in announced.items():
        items = answer.batches.get(path)
        if items is None:
            yield "batch_readable", f"{path}: {answer.faults.get(path, 'was not fetched')}"
            continue
        stored += items
        if len(items) != event.content_count:
            yield "batch_readable", f"{path} holds {len(items)} items, announced were {event.content_count}"
        size = BATCH_SIZES.get(task.platform)
        if size is not None and (len(items) > size or (event.batch_index != last and len(items) < size)):
            yield "batch_size", f"{path} holds {len(items)} items, not {size}"
        if any(not all(_meta(item)) for item in items):
            yield "batch_meta", f"an item of {path} lacks meta.job_id, meta.platform or meta.task_type"
    missing = {_id(item) for item in result.payload} - {_id(item) for item in stored}
    if missing:
        yield "announced", f"{len(missing)} items of the result are in no announced batch"


def _id(item: Any) -> Any:
    meta = item.get("meta") if isinstance(item, dict) else None
    return meta.get("id") if isinstance(meta, dict) else None


# ── messages ─────────────────────────────────────────────────────────────────────────────────────


class ConformanceCheck:
    """Takes the place of Opilio: use a virtual host of its own, or a broker where no collector runs."""

    def __init__(
        self,
        amqp_url: str,
        platform: str,
        *,
        store: ObjectStore,
        timeout_seconds: float = 120,
        results: str = RESULTS,
        lifecycle: str = LIFECYCLE,
    ) -> None:
        self._url = amqp_url
        self._platform = platform
        self._store = store
        self._timeout_seconds = timeout_seconds
        self._results = results
        self._lifecycle = lifecycle
        self._answers: dict[str, TaskAnswers] = {}
        self._received = asyncio.Condition()

    async def run(self, keyword: str) -> list[Violation]:
        """Sends its tasks one after the other and checks all answers."""
        async with await aio_pika.connect(self._url) as connection:
            channel = await connection.channel()
            await self._declare(connection)
            await self._listen(channel)
            for answer in self._tasks(keyword):
                await self._ask(channel, answer)
        return [breach for answer in self._answers.values() for breach in find_violations(answer)]

    def _tasks(self, keyword: str) -> Iterator[TaskAnswers]:
        """A usual task, a tiny one, a second attempt, one that finds nothing, and one that is delivered twice."""
        yield TaskAnswers(task=self._task(keyword, limit=25))
        yield TaskAnswers(task=self._task(keyword, limit=1))
        yield TaskAnswers(task=self._task(keyword, limit=5, attempt=2))
        yield TaskAnswers(task=self._task(f"{keyword} {uuid4().hex}", limit=5))
        yield TaskAnswers(task=self._task(keyword, limit=3), repeated=True)

    def _task(self, keyword: str, *, limit: int, attempt: int = 1) -> CrawlTask:
        return CrawlTask(
            job_id=f"conformance_{uuid4().hex[:12]}-brand-0",
            platform=self._platform,
            task_type="research_and_crawl",
            keywords=[keyword],
            limit=limit,
            payload={},
            attempt=attempt,
            max_attempts=3,
            emitted_at=datetime.now(UTC),
        )

    async def _declare(self, connection: Any) -> None:
        """What a collector would have declared: the exchanges, and the platform's task queue with its delay queues."""
        whole = topology((self._platform,), results=self._results, lifecycle=self._lifecycle)
        wanted = Topology(whole.exchanges, (task_queue(self._platform),))
        await Declaration(connection).declare(wanted)

    async def _listen(self, channel: Any) -> None:
        for exchange, key, kind in (
            (self._results, f"crawler.{self._platform}.result", "results"),
            (self._lifecycle, "data.collected", "events"),
        ):
            queue = await channel.declare_queue(exclusive=True)
            await queue.bind(exchange, key)
            await queue.consume(self._receiver(kind), no_ack=True)

    def _receiver(self, kind: str) -> Any:
        async def receive(incoming: AbstractIncomingMessage) -> None:
            message = CrawlerMessage(
                body=incoming.body,
                headers=dict(incoming.headers),
                content_type=incoming.content_type,
                content_encoding=incoming.content_encoding,
                persistent=incoming.delivery_mode == aio_pika.DeliveryMode.PERSISTENT,
                correlation_id=incoming.correlation_id,
            )
            if kind == "results" and _is_start(message):
                return
            async with self._received:
                for job_id, answer in self._answers.items():
                    if (
                        job_id in (message.correlation_id, message.headers.get("x-job-id"))
                        or job_id.encode() in message.body
                    ):
                        getattr(answer, kind).append(message)
                self._received.notify_all()

        return receive

    async def _ask(self, channel: Any, answer: TaskAnswers) -> None:
        answer.results, answer.events, answer.batches, answer.faults = [], [], {}, {}
        self._answers[answer.task.job_id] = answer
        for number in range(2 if answer.repeated else 1):
            await self._send(channel, answer.task)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._timeout_seconds), self._received:
                    await self._received.wait_for(lambda wanted=number + 1: len(answer.results) >= wanted)  # type: ignore[misc]
        for message in answer.events:
            await self._fetch(answer, message)

    async def _send(self, channel: Any, task: CrawlTask) -> None:
        message = aio_pika.Message(
            msgspec.json.encode(task),
            headers=standard_headers(
                {"x-job-id": task.job_id, "x-platform": task.platform, "x-attempt": task.attempt}
            ),
            content_type=CONTENT_TYPE,
            content_encoding=CONTENT_ENCODING,
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
            correlation_id=task.job_id,
        )
        await channel.default_exchange.publish(message, task_queue(self._platform).name)

    async def _fetch(self, answer: TaskAnswers, message: CrawlerMessage) -> None:
        with suppress(msgspec.DecodeError):
            path = msgspec.json.decode(message.body, type=DataCollected).payload.minio_path
            try:
                answer.batches[path] = await self._batch(path)
            except Unfetched as fault:
                answer.faults[path] = str(fault)

    async def _batch(self, path: str) -> list[Any]:
        key = path.removeprefix("minio://").partition("/")[2]
        try:
            found = await obstore.get_async(self._store, key)
            body = bytes(await found.bytes_async())
        except FileNotFoundError:
            raise Unfetched(f"there is no object {key} in the bucket of --blobs-url") from None
        except (BaseError, OSError) as error:
            raise Unfetched(f"object storage answered {type(error).__name__}: {error}"[:300]) from None
        try:
            read = msgspec.json.decode(_unpacked(body))
        except (msgspec.DecodeError, zstandard.ZstdError, OSError, EOFError) as error:
            raise Unfetched(f"cannot be read: {error}") from None
        items = read.get("items") if isinstance(read, dict) else read
        if not isinstance(items, list):
            raise Unfetched("holds neither an array nor {items: […]}")
        return items


def _is_start(message: CrawlerMessage) -> bool:
    """A crawler may say that it has begun; its result is yet to come."""
    try:
        body = msgspec.json.decode(message.body)
    except msgspec.DecodeError:
        return False
    return isinstance(body, dict) and body.get("status") in {"started", "running"}


def _unpacked(body: bytes) -> bytes:
    if body.startswith(_ZSTD):
        return bytes(zstandard.ZstdDecompressor().stream_reader(body).read())
    return gzip.decompress(body) if body.startswith(_GZIP) else body
