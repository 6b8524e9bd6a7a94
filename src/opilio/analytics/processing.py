"""What happens to one message: understood, fetched, analysed, stored; and what becomes of it in the queue."""

import asyncio
import time
from collections.abc import Mapping
from concurrent.futures import BrokenExecutor, Executor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import asyncpg
import obstore.exceptions
import structlog

from opilio.adapters.buckets import Buckets, Missing
from opilio.analytics.batch import BatchRows, analyse_batch
from opilio.analytics.body import TooLarge, read_body, split_items
from opilio.analytics.message import Inbound, Unreadable, read_message
from opilio.analytics.store import BatchStore
from opilio.backoff import doubling
from opilio.errors import Unavailable

log = structlog.get_logger(__name__)
_UNAVAILABLE = (
    OSError,
    obstore.exceptions.BaseError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.TransactionRollbackError,
    asyncpg.InterfaceError,
    Unavailable,
)
# A worker that dies takes the batches of its neighbours down with it; a batch that always kills is given up in the end.
_MOST_CRASHES = 10
_USUAL_SIZE = {"tiktok": 50, "youtube": 20}


@dataclass(frozen=True, slots=True)
class Done:
    """Stored, or stored before: the message can go. The figures are for the metrics."""

    inbound: Inbound
    rows: BatchRows | None  # None where the batch had been analysed before
    fetch_seconds: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Again:
    """Not now: the message should come again after a while."""

    after: timedelta
    reason: str


@dataclass(frozen=True, slots=True)
class Poison:
    """Never: to the dead letters, with the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotMine:
    """A form that is switched off: the message stays in its queue."""

    reason: str


Outcome: TypeAlias = Done | Again | Poison | NotMine


@dataclass(frozen=True, slots=True)
class ProcessingOptions:
    """What an operator can set."""

    new_mode: bool = True
    legacy_mode: bool = True
    stages: Mapping[str, str] = field(default_factory=dict)
    tries: int = 4
    first_wait: timedelta = timedelta(seconds=5)
    longest_wait: timedelta = timedelta(minutes=5)


class BatchProcessor:
    """Knows nothing of the bus: it gets a body and answers what should become of it."""

    def __init__(
        self,
        store: BatchStore,
        buckets: Buckets,
        options: ProcessingOptions | None = None,
        *,
        pool: Executor | None = None,
    ) -> None:
        self._store = store
        self._buckets = buckets
        self._options = options or ProcessingOptions()
        self._pool = pool

    async def process(
        self, body: bytes, headers: Mapping[str, Any] | None = None, *, retries: int = 0
    ) -> Outcome:
        """`retries` is how often this message was asked for again before."""
        try:
            inbound = read_message(body)
        except Unreadable as fault:
            return Poison(str(fault))
        if not self._enabled(inbound):
            return NotMine(f"{inbound.format} messages are switched off")
        trace = (headers or {}).get("x-trace-id")
        with structlog.contextvars.bound_contextvars(batch=inbound.batch_key, trace_id=trace):
            try:
                return await self._process(inbound, retries)
            except _UNAVAILABLE as fault:
                # The world around the batch is at fault, not the batch: it is never given up for that.
                return Again(self._wait(retries), f"unavailable: {type(fault).__name__}: {fault}")

    def _enabled(self, inbound: Inbound) -> bool:
        return self._options.new_mode if inbound.format == "event" else self._options.legacy_mode

    async def _process(self, inbound: Inbound, retries: int) -> Outcome:
        now = datetime.now(UTC)
        try:
            return await self._fetch_and_store(inbound, now)
        except TooLarge as fault:
            return await self._give_up(inbound, str(fault), now)
        except (Missing, Unreadable) as fault:
            return await self._again(inbound, str(fault), now, retries, self._options.tries)
        except BrokenExecutor as fault:
            return await self._again(inbound, f"worker_died: {fault}", now, retries, _MOST_CRASHES)
        except _UNAVAILABLE:
            raise
        except Exception as fault:
            # Something nobody thought of: the batch is kept as a dead letter, and its project can finish.
            log.exception("analytics.batch_failed")
            reason = f"failed: {type(fault).__name__}: {fault}"
            return await self._again(inbound, reason, now, retries, self._options.tries)

    async def _fetch_and_store(self, inbound: Inbound, now: datetime) -> Done:
        begun = time.perf_counter()
        if await self._store.is_done(inbound):
            return Done(inbound, None)
        items = await self._items(inbound)
        fetched = time.perf_counter() - begun
        _check_size(inbound, len(items))
        rows = await self._analyse(items, inbound, now)
        stored = await self._store.store(inbound, rows, now)
        return Done(inbound, rows if stored else None, fetched, time.perf_counter() - begun)

    async def _items(self, inbound: Inbound) -> list[bytes]:
        if inbound.blob is None:
            assert inbound.item is not None
            return [inbound.item]
        return split_items(await read_body(self._buckets.chunks(inbound.blob.bucket, inbound.blob.key)))

    async def _analyse(self, items: list[bytes], inbound: Inbound, now: datetime) -> BatchRows:
        """In the pool where there is one: the stages need a processor, and the loop has other batches to serve."""
        loop = asyncio.get_running_loop()
        stages = dict(self._options.stages)
        return await loop.run_in_executor(self._pool, analyse_batch, items, inbound.context, stages, now)

    async def _again(self, inbound: Inbound, reason: str, now: datetime, retries: int, tries: int) -> Outcome:
        if retries + 1 < tries:
            return Again(self._wait(retries), reason)
        return await self._give_up(inbound, reason, now)

    async def _give_up(self, inbound: Inbound, reason: str, now: datetime) -> Outcome:
        await self._store.give_up(inbound, now)
        return Poison(reason)

    def _wait(self, retries: int) -> timedelta:
        return doubling(self._options.first_wait, retries + 1, self._options.longest_wait)


def _check_size(inbound: Inbound, size: int) -> None:
    usual = _USUAL_SIZE.get(inbound.context.platform)
    if inbound.format == "event" and usual is not None and size != usual:
        log.debug("unexpected batch size", platform=inbound.context.platform, expected=usual, actual=size)
