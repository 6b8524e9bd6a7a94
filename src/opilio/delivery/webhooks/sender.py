"""Sends webhooks: claims endpoints that are due, visits them side by side, records what came of it in batches."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import structlog

from opilio.adapters.postgres import Database, Session
from opilio.clock import Clock
from opilio.delivery.outbox.routing import sql
from opilio.delivery.webhooks import signature
from opilio.delivery.webhooks.batch import Delivery, Visit, visits
from opilio.delivery.webhooks.client import Post
from opilio.delivery.webhooks.health import FAILURES_BEFORE_COOLING, Answer, HostWatch, Meaning
from opilio.loop import Counts, Loop, run_loops

log = structlog.get_logger(__name__)
CHANNEL = "opilio_webhooks"
# A visit begins no sending after the budget, and a sending takes at most its limit: both fit into the lease,
# so that nobody else sends for an endpoint while it is being visited.
BUDGET = timedelta(seconds=20)
LEASE = timedelta(seconds=60)
GRACE = timedelta(seconds=3)


class Sender:
    """Any number of them may run. `at_once` bounds memory and sockets; a host that is down takes few places."""

    def __init__(
        self,
        database: Database,
        post: Post,
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
        self._post = post
        self._at_once = at_once
        self._host_at_once = host_at_once
        self._most_of_one = most_of_one
        self._clock = clock or Clock()
        self._hosts = HostWatch(host_at_once)
        self._under_way: set[asyncio.Task[None]] = set()
        self._finished: list[Visit] = []
        self._sending = Loop(
            "webhook_sender",
            5,
            self._start_visits,
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
            await self._end_visits()
            await self._record_finished()

    async def _end_visits(self) -> None:
        """A receiver that is slow does not hold up the end: what it did not answer is sent again later."""
        if self._under_way:
            _, slow = await asyncio.wait(self._under_way, timeout=GRACE.total_seconds())
            for visit in slow:
                visit.cancel()
            await asyncio.gather(*slow, return_exceptions=True)

    async def run_once(self) -> Counts:
        """Sends whatever is due now."""
        claimed = await self._claim()
        await asyncio.gather(*(self._visit(visit) for visit in claimed))
        sent = sum(len(visit.attempts) for visit in claimed)
        await self._record_finished()
        return {"sent": sent}

    async def _start_visits(self) -> Counts:
        room = self._at_once - len(self._under_way)
        if room <= 0:
            return {}
        claimed = await self._claim(room)
        for visit in claimed:
            task = asyncio.create_task(self._visit(visit))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        return {"claimed": len(claimed)}

    async def _next_due(self) -> float | None:
        if len(self._under_way) >= self._at_once:
            return 1.0
        full = [host for host, left in self._hosts.rooms().items() if left <= 0]
        due: float | None = await self._db.value(sql.next_open, now=self._clock.now(), full_hosts=full)
        return due

    async def _claim(self, room: int | None = None) -> list[Visit]:
        rooms = self._hosts.rooms()
        lease = uuid4()
        rows = await self._db.fetch(
            sql.claim_visits,
            hot=True,
            now=self._clock.now(),
            most=min(room or self._at_once, self._at_once),
            full_hosts=[host for host, left in rooms.items() if left <= 0],
            hosts=list(rooms),
            rooms=list(rooms.values()),
            host_room=self._host_at_once,
            lease=lease,
            lease_seconds=self._lease.total_seconds(),
            most_of_one=self._most_of_one,
            failures_before_probation=FAILURES_BEFORE_COOLING,
        )
        claimed = visits(rows, lease)
        for visit in claimed:
            self._hosts.enter(visit.host)
        return claimed

    async def _visit(self, visit: Visit) -> None:
        try:
            await visit.run(self._send, self._now, self._budget)
        finally:
            self._hosts.leave(visit.host, visit.meanings)
            self._finished.append(visit)
            self._recording.wake()

    async def _send(self, visit: Visit, delivery: Delivery) -> Answer:
        if delivery.body is None:
            return Answer(None, 0, error="its event is no longer in the log")
        headers = signature.headers(delivery.webhook_id, datetime.now(UTC), delivery.body, visit.secrets)
        return await self._post.send(visit.url, delivery.body, headers)

    async def _record_finished(self) -> Counts:
        """One transaction for all visits that ended while the previous one was under way."""
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

    async def _record(self, session: Session, done: Sequence[Visit]) -> None:
        now = self._clock.now()
        await session.fetch(sql.lock_gates, endpoint_ids=[visit.endpoint_id for visit in done])
        attempts = [attempt for visit in done for attempt in visit.attempts]
        if attempts:
            await session.execute(
                sql.settle_deliveries,
                now=now,
                delivery_ids=[attempt.delivery.delivery_id for attempt in attempts],
                attempts=[attempt.number for attempt in attempts],
                times=[attempt.at for attempt in attempts],
                statuses=[attempt.answer.status for attempt in attempts],
                latencies=[attempt.answer.latency_ms for attempt in attempts],
                outcomes=[attempt.outcome for attempt in attempts],
                errors=[attempt.answer.complaint for attempt in attempts],
                answers=[attempt.answer.head for attempt in attempts],
                waits=[attempt.wait.total_seconds() if attempt.wait else None for attempt in attempts],
            )
        lanes = [(visit.endpoint_id, delivery.subject) for visit in done for delivery in visit.finished]
        if lanes:
            await session.execute(
                sql.promote_heads, endpoint_ids=[e for e, _ in lanes], subjects=[s for _, s in lanes]
            )
        await self._release(session, done)
        await self._switch_off(session, done)

    async def _release(self, session: Session, done: Sequence[Visit]) -> None:
        last_of = [visit.attempts[-1] if visit.attempts else None for visit in done]
        succeeded = [a.at if a and a.answer.meaning is Meaning.DELIVERED else None for a in last_of]
        failed = [a.at if a and a.answer.meaning is not Meaning.DELIVERED else None for a in last_of]
        await session.execute(
            sql.release_gates,
            now=self._clock.now(),
            endpoint_ids=[visit.endpoint_id for visit in done],
            leases=[visit.lease for visit in done],
            failures=[visit.health.failures for visit in done],
            failing_since=[visit.health.failing_since for visit in done],
            closed_for=[self._closed_for(visit) for visit in done],
            success_at=succeeded,
            failure_at=failed,
            errors=[attempt.answer.complaint if attempt else None for attempt in last_of],
        )

    def _closed_for(self, visit: Visit) -> float:
        if visit.health.closed_until is None or not visit.attempts:
            return 0.0
        return max((visit.health.closed_until - visit.attempts[-1].at).total_seconds(), 0.0)

    async def _switch_off(self, session: Session, done: Sequence[Visit]) -> None:
        verdicts = [(visit.endpoint_id, visit.verdict(self._now())) for visit in done]
        off = [(endpoint_id, *verdict) for endpoint_id, verdict in verdicts if verdict]
        if not off:
            return
        for endpoint_id, status, reason in off:
            log.warning("webhook.switched_off", endpoint_id=str(endpoint_id), status=status, reason=reason)
        endpoint_ids, statuses, reasons = [list(column) for column in zip(*off, strict=True)]
        await session.fetch(
            sql.switch_off,
            now=self._clock.now(),
            endpoint_ids=endpoint_ids,
            statuses=statuses,
            reasons=reasons,
        )

    def _now(self) -> datetime:
        return self._clock.now() or datetime.now(UTC)
