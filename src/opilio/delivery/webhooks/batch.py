"""Deliveries claimed together for one endpoint: sent concurrently, with the result of each."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from uuid import UUID

from opilio.adapters.postgres import Row
from opilio.delivery.webhooks import retry
from opilio.delivery.webhooks.health import Health, Response, ResponseKind


@dataclass(frozen=True, slots=True)
class Delivery:
    delivery_id: int
    subject: str
    webhook_id: str
    type: str
    attempts: int  # made before
    body: bytes | None  # None when its event is no longer in the log
    trace_id: str | None = None  # of the project that it reports


@dataclass(frozen=True, slots=True)
class SentDelivery:
    """One attempt, ready to be recorded."""

    delivery: Delivery
    at: datetime
    response: Response
    outcome: str
    wait: timedelta | None

    @property
    def attempt(self) -> int:
        return self.delivery.attempts + 1


Send = Callable[["EndpointBatch", Delivery], Awaitable[Response]]


@dataclass(slots=True)
class EndpointBatch:
    """No other sender has the endpoint while the lease lasts. The first failure ends the batch: the rest waits."""

    endpoint_id: UUID
    lease: UUID
    host: str
    url: str
    secrets: list[str]
    max_concurrent: int
    health: Health
    deliveries: list[Delivery]
    sent: list[SentDelivery] = field(default_factory=list)

    async def run(self, send: Send, now: Callable[[], datetime], budget: timedelta) -> None:
        """Starts no attempt after the budget has passed."""
        waiting = iter(self.deliveries)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + budget.total_seconds()
        failed = False

        async def work() -> None:
            nonlocal failed
            for delivery in waiting:
                if failed or loop.time() > deadline:
                    return
                response = await send(self, delivery)
                self.sent.append(_outcome(delivery, response, now()))
                failed = failed or response.kind is not ResponseKind.DELIVERED

        await asyncio.gather(*(work() for _ in range(min(self.max_concurrent, len(self.deliveries)))))
        for sent in self.sent:
            self.health = self.health.after(sent.response, sent.at)

    @property
    def kinds(self) -> list[ResponseKind]:
        return [sent.response.kind for sent in self.sent]

    @property
    def finished(self) -> list[Delivery]:
        return [sent.delivery for sent in self.sent if sent.outcome != "retrying"]

    def status_change(self, now: datetime) -> tuple[str, str] | None:
        """The new status of the endpoint and the reason, when it must be switched off."""
        if ResponseKind.GONE in self.kinds:
            return "disabled", "it answered 410 Gone"
        if self.health.failed_too_long(now) and self.sent:
            since = self.health.failing_since
            last = self.sent[-1].response.error_text
            return "paused", f"every attempt since {since:%Y-%m-%d %H:%M} UTC failed; the last one: {last}"
        return None


def _outcome(delivery: Delivery, response: Response, at: datetime) -> SentDelivery:
    if response.kind is ResponseKind.DELIVERED:
        return SentDelivery(delivery, at, response, "delivered", None)
    wait = retry.next_wait(delivery.attempts + 1, response.retry_after, random.random())
    if wait is None or delivery.body is None:
        return SentDelivery(delivery, at, response, "dead", None)
    return SentDelivery(delivery, at, response, "retrying", wait)


def batches_of(rows: Iterable[Row], lease: UUID) -> list[EndpointBatch]:
    """Groups claimed rows by endpoint."""
    found = []
    for _, group in groupby(rows, key=lambda row: row["endpoint_id"]):
        members = list(group)
        first = members[0]
        found.append(
            EndpointBatch(
                endpoint_id=first["endpoint_id"],
                lease=lease,
                host=first["host"],
                url=first["url"],
                secrets=[secret for secret in (first["secret"], first["old_secret"]) if secret],
                max_concurrent=first["max_concurrent"],
                health=Health(first["failures"], first["failing_since"]),
                deliveries=[_delivery(row) for row in members if row["delivery_id"] is not None],
            )
        )
    return found


def _delivery(row: Row) -> Delivery:
    return Delivery(
        row["delivery_id"],
        row["subject"],
        row["webhook_id"],
        row["type"],
        row["attempts"],
        row["body"],
        row["trace_id"],
    )
