"""Sends webhooks: claims endpoints that are due, sends their deliveries, records the results in batches."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import msgspec

from opilio import tracing
from opilio.adapters.postgres import Database, Session
from opilio.clock import Clock
from opilio.delivery.sql import QUERIES
from opilio.delivery.webhooks import signature
from opilio.delivery.webhooks.batch import Delivery, EndpointBatch, batches_of
from opilio.delivery.webhooks.client import WebhookClient
from opilio.delivery.webhooks.health import FAILURES_BEFORE_BACKOFF, HostLimits, Response, ResponseKind
from opilio.logs import get_logger
from opilio.loop import Counts, Loop, run_loops

log = get_logger(__name__)
CHANNEL = "opilio_webhooks"
# No attempt begins after the budget, and an attempt takes at most its time limit: both fit into the lease,
# so that no other sender has the endpoint at the same time.
BUDGET = timedelta(seconds=20)
LEASE = timedelta(seconds=60)
GRACE = timedelta(seconds=3)


class Sender:
    """Safe to run concurrently. `at_once` bounds memory and sockets; a host that is down takes few of its places."""

    def __init__(
        self,
        database: Database,
        client: WebhookClient,
        *,
        at_once: int = 200,
        host_at_once: int = 32,
        most_of_one: int = 32,
        budget: timedelta = BUDGET,
        lease: timedelta = LEASE,
        clock: Clock | None = None,
    ) -> None:
        self._db = database
        self._budget = budget
        self._lease = lease
        self._client = client
        self._at_once = at_once
        self._host_at_once = host_at_once
        self._most_of_one = most_of_one
        self._clock = clock or Clock()
        self._hosts = HostLimits(host_at_once)
        self._running: set[asyncio.Task[None]] = set()
        self._finished: list[EndpointBatch] = []
        self._sending = Loop(
            "webhook_sender",
            5,
            self._start_batches,
            drain=True,
            next_due=self._next_due,
            wake_on=[CHANNEL],
            notifications=database,
        )
        self._recording = Loop("webhook_recorder", 60, self._record_finished, drain=True)

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Until stopped or cancelled; what was sent is recorded before it ends."""
        try:
            await run_loops([self._sending, self._recording], stop or asyncio.Event())
        finally:
            await self._end_batches()
            await self._record_finished()

    async def _end_batches(self) -> None:
        """Waits a moment for slow receivers; what they have not answered by then is sent again later."""
        if self._running:
            _, slow = await asyncio.wait(self._running, timeout=GRACE.total_seconds())
            for batch in slow:
                batch.cancel()
            await asyncio.gather(*slow, return_exceptions=True)

    async def run_once(self) -> Counts:
        """Sends whatever is due now."""
        claimed = await self._claim()
        await asyncio.gather(*(self._send_batch(batch) for batch in claimed))
        sent = sum(len(batch.sent) for batch in claimed)
        await self._record_finished()
        return {"sent": sent}

    async def _start_batches(self) -> Counts:
        room = self._at_once - len(self._running)
        if room <= 0:
            return {}
        claimed = await self._claim(room)
        for batch in claimed:
            task = asyncio.create_task(self._send_batch(batch))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return {"claimed": len(claimed)}

    async def _next_due(self) -> float | None:
        if len(self._running) >= self._at_once:
            return 1.0
        due: float | None = await self._db.value(
            QUERIES.next_open, now=self._clock.now(), full_hosts=self._hosts.full()
        )
        return due

    async def _claim(self, room: int | None = None) -> list[EndpointBatch]:
        free = self._hosts.free()
        lease = uuid4()
        rows = await self._db.fetch(
            QUERIES.claim_batches,
            hot=True,
            now=self._clock.now(),
            most=min(room or self._at_once, self._at_once),
            full_hosts=self._hosts.full(),
            hosts=list(free),
            rooms=list(free.values()),
            host_room=self._host_at_once,
            lease=lease,
            lease_seconds=self._lease.total_seconds(),
            most_of_one=self._most_of_one,
            failures_before_backoff=FAILURES_BEFORE_BACKOFF,
        )
        claimed = batches_of(rows, lease)
        for batch in claimed:
            self._hosts.begin(batch.host)
        return claimed

    async def _send_batch(self, batch: EndpointBatch) -> None:
        try:
            await batch.run(self._send, self._now, self._budget)
        finally:
            self._hosts.end(batch.host, batch.kinds)
            self._finished.append(batch)
            self._recording.wake()

    async def _send(self, batch: EndpointBatch, delivery: Delivery) -> Response:
        if delivery.body is None:
            return Response(None, 0, error="its event is no longer in the log")
        headers = signature.headers(delivery.webhook_id, datetime.now(UTC), delivery.body, batch.secrets)
        trace = delivery.trace_id or ""
        if (
            trace.isascii() and trace.isprintable() and trace.strip()
        ):  # it came from outside: a header must not break
            headers["x-trace-id"] = trace.strip()
        began = tracing.now()
        response = await self._client.send(batch.url, delivery.body, headers)
        if tracing.on():
            _trace(batch, delivery, response, began)
        return response

    async def _record_finished(self) -> Counts:
        """Records all batches that ended since the last round in one transaction."""
        done, self._finished = self._finished, []
        if not done:
            return {}
        try:
            await self._db.transact(lambda session: self._record(session, done))
        except BaseException:
            self._finished = done + self._finished
            raise
        self._sending.wake()
        return {"recorded": len(done)}

    async def _record(self, session: Session, done: Sequence[EndpointBatch]) -> None:
        await session.fetch(QUERIES.lock_gates, endpoint_ids=[batch.endpoint_id for batch in done])
        sent = [sent for batch in done for sent in batch.sent]
        if sent:
            await session.execute(
                QUERIES.settle_deliveries,
                now=self._clock.now(),
                delivery_ids=[each.delivery.delivery_id for each in sent],
                attempts=[each.attempt for each in sent],
                times=[each.at for each in sent],
                statuses=[each.response.status for each in sent],
                latencies=[each.response.latency_ms for each in sent],
                outcomes=[each.outcome for each in sent],
                errors=[each.response.error_text for each in sent],
                answers=[each.response.body_start for each in sent],
                waits=[each.wait.total_seconds() if each.wait else None for each in sent],
            )
        lanes = [(batch.endpoint_id, delivery.subject) for batch in done for delivery in batch.finished]
        if lanes:
            await session.execute(
                QUERIES.promote_heads, endpoint_ids=[e for e, _ in lanes], subjects=[s for _, s in lanes]
            )
        await self._release(session, done)
        await self._switch_off(session, done)

    async def _release(self, session: Session, done: Sequence[EndpointBatch]) -> None:
        last_of = [batch.sent[-1] if batch.sent else None for batch in done]
        succeeded = [s.at if s and s.response.kind is ResponseKind.DELIVERED else None for s in last_of]
        failed = [s.at if s and s.response.kind is not ResponseKind.DELIVERED else None for s in last_of]
        await session.execute(
            QUERIES.release_gates,
            now=self._clock.now(),
            endpoint_ids=[batch.endpoint_id for batch in done],
            leases=[batch.lease for batch in done],
            failures=[batch.health.failures for batch in done],
            failing_since=[batch.health.failing_since for batch in done],
            closed_for=[self._closed_for(batch) for batch in done],
            success_at=succeeded,
            failure_at=failed,
            errors=[last.response.error_text if last else None for last in last_of],
        )

    def _closed_for(self, batch: EndpointBatch) -> float:
        if batch.health.closed_until is None or not batch.sent:
            return 0.0
        return max((batch.health.closed_until - batch.sent[-1].at).total_seconds(), 0.0)

    async def _switch_off(self, session: Session, done: Sequence[EndpointBatch]) -> None:
        changes = [(batch.endpoint_id, batch.status_change(self._now())) for batch in done]
        off = [(endpoint_id, *change) for endpoint_id, change in changes if change]
        if not off:
            return
        for endpoint_id, status, reason in off:
            log.warning("webhook.switched_off", endpoint_id=str(endpoint_id), status=status, reason=reason)
        endpoint_ids, statuses, reasons = [list(column) for column in zip(*off, strict=True)]
        await session.fetch(
            QUERIES.switch_off,
            now=self._clock.now(),
            endpoint_ids=endpoint_ids,
            statuses=statuses,
            reasons=reasons,
        )

    def _now(self) -> datetime:
        return self._clock.now() or datetime.now(UTC)


class _OfJob(msgspec.Struct):
    job_id: str = ""


class _Event(msgspec.Struct):
    data: _OfJob


_event = msgspec.json.Decoder(_Event)


def _trace(batch: EndpointBatch, delivery: Delivery, response: Response, began: int) -> None:
    """In the trace of the project, or of the job that the event is about; other events have none."""
    trace, parent = delivery.trace_id or "", tracing.ROOT
    if not trace and delivery.type.startswith("crawl.job.") and delivery.body:
        trace, parent = _event.decode(delivery.body).data.job_id, tracing.END
    delivered = response.kind is ResponseKind.DELIVERED
    tracing.record(
        "webhook",
        trace,
        began,
        parent=parent,
        error="" if delivered else response.error or f"status {response.status}",
        type=delivery.type,
        url=batch.url,
        attempt=delivery.attempts + 1,
    )
