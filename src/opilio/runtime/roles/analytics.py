"""The analytics role: stores and analyses collected batches."""

import asyncio
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

from prometheus_client import REGISTRY

from opilio.adapters.buckets import Buckets
from opilio.analytics.consume import BatchConsumer
from opilio.analytics.metrics import AnalyticsMetrics
from opilio.analytics.processing import BatchProcessor, ProcessingOptions
from opilio.analytics.store import BatchStore
from opilio.bus import Bus
from opilio.contracts.topology import COLLECTED_QUEUE
from opilio.loop import Counts, Loop, Work, run_loops
from opilio.runtime.bootstrap import Opilio, open_bus
from opilio.runtime.process_pool import ProcessPool
from opilio.runtime.settings import Settings

CONCURRENT_BATCHES = 5  # one consumer each, with a prefetch of 1
_MINUTE, _HOUR = 60.0, 3600.0


async def serve(opilio: Opilio, stop: asyncio.Event) -> None:
    settings = opilio.settings
    store = BatchStore(opilio.database, exchange=settings.exchange_results, time_zone=settings.time_zone)
    await store.prepare_months(datetime.now(UTC))  # before the first row: a partition must exist first
    workers = settings.analytics_workers
    with ProcessPool(workers) if workers else nullcontext() as pool:
        processor = BatchProcessor(store, Buckets(settings.blobs), _options(settings), pool=pool)
        async with open_bus(settings, opilio.database) as bus:
            consumer = BatchConsumer(processor, AnalyticsMetrics(REGISTRY))
            consumers = [
                await bus.consume(COLLECTED_QUEUE, consumer.handle, prefetch=1)
                for _ in range(CONCURRENT_BATCHES)
            ]
            loops = [
                Loop("analytics_months", _HOUR, _keeper(store, settings)),
                Loop("analytics_unpark", _MINUTE, _unparker(bus, settings)),
            ]
            try:
                await run_loops(loops, stop)
            finally:
                await asyncio.gather(*(consumer.close() for consumer in consumers))


def _unparker(bus: Bus, settings: Settings) -> Work:
    """Messages of a format that was disabled and is enabled again go back to their queue."""
    enabled = {
        "event": settings.new_mode_enabled,
        "legacy": settings.legacy_mode_enabled,
        "inline": settings.legacy_mode_enabled,
    }

    async def unpark() -> Counts:
        moved = [await bus.unpark(COLLECTED_QUEUE, format_) for format_, on in enabled.items() if on]
        return {"unparked": sum(moved)}

    return unpark


def _options(settings: Settings) -> ProcessingOptions:
    return ProcessingOptions(
        new_mode=settings.new_mode_enabled,
        legacy_mode=settings.legacy_mode_enabled,
        stages=settings.analytics_stages,
        first_wait=timedelta(seconds=settings.analytics_retry_seconds),
    )


def _keeper(store: BatchStore, settings: Settings) -> Work:
    async def keep() -> Counts:
        now = datetime.now(UTC)
        await store.prepare_months(now)
        dropped: dict[str, int] = {}
        if settings.keep_posts_days:
            dropped["months_dropped"] = await store.forget(now - timedelta(days=settings.keep_posts_days))
        days = settings.keep_posts_days if settings.keep_errors_days is None else settings.keep_errors_days
        if days:
            dropped["error_months_dropped"] = await store.forget_errors(now - timedelta(days=days))
        return dropped

    return keep
