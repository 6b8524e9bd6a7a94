"""Processes one message: read, fetch, analyse, store; returns what the queue should do with it."""

import asyncio
import hashlib
import time
from collections.abc import Mapping
from concurrent.futures import BrokenExecutor, Executor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import asyncpg
import obstore.exceptions

from opilio.adapters.buckets import Buckets, Forbidden, Missing
from opilio.adapters.postgres.unavailable import DOES_NOT_ANSWER
from opilio.analytics.batch import BatchRows, analyse_batch
from opilio.analytics.body import TooLarge, read_body, split_items
from opilio.analytics.message import Inbound, Unreadable, read_message
from opilio.analytics.store import BatchStore
from opilio.backoff import doubling
from opilio.logs import get_logger, structlog

log = get_logger(__name__)
_UNAVAILABLE = (*DOES_NOT_ANSWER, asyncpg.TransactionRollbackError, obstore.exceptions.BaseError)
# A crashing worker process also fails batches that run beside it, so a batch gets more tries.
_MOST_CRASHES = 10
_FORBIDDEN_TRIES = 8  # S3 also answers 403 for a missing key, so it is not asked for ever
_USUAL_SIZE = {"tiktok": 50, "youtube": 20}


@dataclass(frozen=True, slots=True)
class Done:
    """Stored now or before: acknowledge the message."""

    inbound: Inbound
    rows: BatchRows | None  # None where the batch had been analysed before
    fetch_seconds: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RetryLater:
    """Retry the message after a delay."""

    after: timedelta
    reason: str


@dataclass(frozen=True, slots=True)
class Reject:
    """Send the message to the dead letters."""

    reason: str


@dataclass(frozen=True, slots=True)
class Disabled:
    """A disabled format: the message waits in the parking queue of its format."""

    format: str
    reason: str


Outcome: TypeAlias = Done | RetryLater | Reject | Disabled


@dataclass(frozen=True, slots=True)
class ProcessingOptions:
    """Options that an operator can set."""

    new_mode: bool = True
    legacy_mode: bool = True
    stages: Mapping[str, str] = field(default_factory=dict)
    tries: int = 4
    first_wait: timedelta = timedelta(seconds=5)
    longest_wait: timedelta = timedelta(minutes=5)


class BatchProcessor:
    """Gets the body of a message and returns an outcome; does not know the bus."""

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
        """`retries` counts earlier retries of this message."""
        try:
            inbound = read_message(body)
        except Unreadable as fault:
            return Reject(str(fault))
        if not self._enabled(inbound):
            return Disabled(inbound.format, f"{inbound.format} messages are disabled")
        trace = (headers or {}).get("x-trace-id")
        inbound = replace(inbound, trace_id=str(trace) if trace else None)
        with structlog.contextvars.bound_contextvars(batch=inbound.batch_key, trace_id=trace):
            try:
                return await self._process(inbound, retries)
            except _UNAVAILABLE as fault:
                # Not the fault of the batch: retried without a limit.
                return RetryLater(self._wait(retries), f"unavailable: {type(fault).__name__}: {fault}")

    def _enabled(self, inbound: Inbound) -> bool:
        return self._options.new_mode if inbound.format == "event" else self._options.legacy_mode

    async def _process(self, inbound: Inbound, retries: int) -> Outcome:
        now = datetime.now(UTC)
        if inbound.fault is not None:
            return await self._give_up(inbound, inbound.fault, now)
        try:
            return await self._fetch_and_store(inbound, now)
        except TooLarge as fault:
            return await self._give_up(inbound, str(fault), now)
        except (Missing, Unreadable) as fault:
            return await self._retry(inbound, str(fault), now, retries, self._options.tries)
        except Forbidden as fault:
            return await self._retry(inbound, str(fault), now, retries, _FORBIDDEN_TRIES)
        except BrokenExecutor as fault:
            return await self._retry(inbound, f"worker_died: {fault}", now, retries, _MOST_CRASHES)
        except _UNAVAILABLE:
            raise
        except Exception as fault:
            # Unexpected: the batch ends as a dead letter, and its project can finish.
            log.exception("analytics.batch_failed")
            reason = f"failed: {type(fault).__name__}: {fault}"
            return await self._retry(inbound, reason, now, retries, self._options.tries)

    async def _fetch_and_store(self, inbound: Inbound, now: datetime) -> Done:
        begun = time.perf_counter()
        if await self._store.is_other_batch(inbound):
            return Done(inbound, None)
        body = await self._body(inbound)
        digest = hashlib.sha256(body).hexdigest()
        if await self._store.is_done(inbound, digest):
            return Done(inbound, None)
        items = [body] if inbound.item is not None else split_items(body)
        fetched = time.perf_counter() - begun
        _check_size(inbound, len(items))
        rows = await self._analyse(items, inbound, now)
        stored = await self._store.store(inbound, rows, now, digest)
        return Done(inbound, rows if stored else None, fetched, time.perf_counter() - begun)

    async def _body(self, inbound: Inbound) -> bytes:
        """Fetched even if the batch was analysed before: a crawler that crawled again may have overwritten it."""
        if inbound.blob is None:
            assert inbound.item is not None
            return inbound.item
        return await read_body(self._buckets.chunks(inbound.blob.bucket, inbound.blob.key))

    async def _analyse(self, items: list[bytes], inbound: Inbound, now: datetime) -> BatchRows:
        """Runs in the pool, because the stages need CPU time and would block the event loop."""
        loop = asyncio.get_running_loop()
        stages = dict(self._options.stages)
        return await loop.run_in_executor(self._pool, analyse_batch, items, inbound.context, stages, now)

    async def _retry(self, inbound: Inbound, reason: str, now: datetime, retries: int, tries: int) -> Outcome:
        if retries + 1 < tries:
            return RetryLater(self._wait(retries), reason)
        return await self._give_up(inbound, reason, now)

    async def _give_up(self, inbound: Inbound, reason: str, now: datetime) -> Outcome:
        await self._store.give_up(inbound, now)
        return Reject(reason)

    def _wait(self, retries: int) -> timedelta:
        return doubling(self._options.first_wait, retries + 1, self._options.longest_wait)


def _check_size(inbound: Inbound, size: int) -> None:
    usual = _USUAL_SIZE.get(inbound.context.platform)
    if inbound.format == "event" and usual is not None and size != usual:
        report = log.warning if size > usual else log.info  # the last batch of a task is smaller
        report(
            "analytics.unexpected_batch_size", platform=inbound.context.platform, expected=usual, actual=size
        )
