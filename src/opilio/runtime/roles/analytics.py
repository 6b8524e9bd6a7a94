"""The analytics role: collected batches become rows."""

import asyncio
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

from prometheus_client import REGISTRY

from opilio.adapters.buckets import Buckets
from opilio.analytics.metrics import AnalyticsMetrics
from opilio.analytics.processing import (
    Again,
    BatchProcessor,
    Done,
    NotMine,
    Poison,
    ProcessingOptions,
)
from opilio.analytics.store import BatchStore
from opilio.bus import Ack, DeadLetter, Hold, Message, Retry, Verdict
from opilio.contracts.topology import COLLECTED_QUEUE
from opilio.loop import Counts, Loop, Work, run_loops
from opilio.runtime.bootstrap import Opilio, open_bus
from opilio.runtime.process_pool import ProcessPool
from opilio.runtime.settings import Settings

AT_ONCE = 5  # batches; each consumer takes one message at a time
_HOUR = 3600.0


async def serve(opilio: Opilio, stop: asyncio.Event) -> None:
    settings = opilio.settings
    store = BatchStore(opilio.database)
    await store.prepare_months(datetime.now(UTC))  # before the first row: a month cannot be split off later
    workers = settings.analytics_workers
    with ProcessPool(workers) if workers else nullcontext() as pool:
        processor = BatchProcessor(store, Buckets(settings.blobs), _options(settings), pool=pool)
        async with open_bus(settings, opilio.database) as bus:
            handler = Handler(processor, AnalyticsMetrics(REGISTRY))
            consumers = [
                await bus.consume(
                    COLLECTED_QUEUE, handler.handle, prefetch=1, delivery_limit=_delivery_limit(settings)
                )
                for _ in range(AT_ONCE)
            ]
            try:
                await run_loops([Loop("analytics_months", _HOUR, _keeper(store, settings))], stop)
            finally:
                await asyncio.gather(*(consumer.close() for consumer in consumers))


def _delivery_limit(settings: Settings) -> int | None:
    """A form that is switched off stays in its queue through any number of restarts; else who kills us twenty times goes."""
    return 20 if settings.new_mode_enabled and settings.legacy_mode_enabled else None


def _options(settings: Settings) -> ProcessingOptions:
    return ProcessingOptions(
        new_mode=settings.new_mode_enabled,
        legacy_mode=settings.legacy_mode_enabled,
        stages=settings.analytics_stages,
        first_wait=timedelta(seconds=settings.analytics_retry_seconds),
    )


class Handler:
    """What the bus must do with a message, and what the metrics learn from it."""

    def __init__(self, processor: BatchProcessor, metrics: AnalyticsMetrics) -> None:
        self._processor = processor
        self._metrics = metrics

    async def handle(self, message: Message) -> Verdict:
        outcome = await self._processor.process(message.body, message.headers, retries=message.retries)
        self._metrics.observe(outcome)
        match outcome:
            case Done():
                return Ack()
            case Again(after, reason):
                return Retry(after, reason)
            case Poison(reason):
                return DeadLetter(reason)
            case NotMine(reason):
                return Hold(reason)


def _keeper(store: BatchStore, settings: Settings) -> Work:
    async def keep() -> Counts:
        now = datetime.now(UTC)
        await store.prepare_months(now)
        if not settings.keep_posts_days:
            return {}
        return {"months_dropped": await store.forget(now - timedelta(days=settings.keep_posts_days))}

    return keep
