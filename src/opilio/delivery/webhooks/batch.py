"""A visit to one endpoint: what was claimed, sent side by side, and what came of it."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from uuid import UUID

from opilio.adapters.postgres import Row
from opilio.delivery.webhooks import retry
from opilio.delivery.webhooks.health import Answer, Health, Meaning


@dataclass(frozen=True, slots=True)
class Delivery:
    delivery_id: int
    subject: str
    webhook_id: str
    type: str
    attempts: int  # made before
    body: bytes | None  # None when its event is no longer in the log


@dataclass(frozen=True, slots=True)
class Attempt:
    """One sending, ready to be recorded."""

    delivery: Delivery
    at: datetime
    answer: Answer
    outcome: str
    wait: timedelta | None

    @property
    def number(self) -> int:
        return self.delivery.attempts + 1


Send = Callable[["Visit", Delivery], Awaitable[Answer]]


@dataclass(slots=True)
class Visit:
    """Alone with its endpoint while its lease lasts. It ends at the first failure: what was not yet begun waits."""

    endpoint_id: UUID
    lease: UUID
    host: str
    url: str
    secrets: list[str]
    max_concurrent: int
    health: Health
    deliveries: list[Delivery]
    attempts: list[Attempt] = field(default_factory=list)

    async def run(self, send: Send, now: Callable[[], datetime], budget: timedelta) -> None:
        waiting = iter(self.deliveries)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + budget.total_seconds()
        failed = False

        async def work() -> None:
            nonlocal failed
            for delivery in waiting:
                if failed or loop.time() > deadline:
                    return
                answer = await send(self, delivery)
                self.attempts.append(_attempt(delivery, answer, now()))
                failed = failed or answer.meaning is not Meaning.DELIVERED

        await asyncio.gather(*(work() for _ in range(min(self.max_concurrent, len(self.deliveries)))))
        for attempt in self.attempts:
            self.health = self.health.after(attempt.answer, attempt.at)

    @property
    def meanings(self) -> list[Meaning]:
        return [attempt.answer.meaning for attempt in self.attempts]

    @property
    def finished(self) -> list[Delivery]:
        return [attempt.delivery for attempt in self.attempts if attempt.outcome != "retrying"]

    def verdict(self, now: datetime) -> tuple[str, str] | None:
        """The status that the endpoint gets, and why, when it is to be switched off."""
        if Meaning.GONE in self.meanings:
            return "disabled", "it answered 410 Gone"
        if self.health.failed_too_long(now) and self.attempts:
            since = self.health.failing_since
            last = self.attempts[-1].answer.complaint
            return "paused", f"every attempt since {since:%Y-%m-%d %H:%M} UTC failed; the last one: {last}"
        return None


def _attempt(delivery: Delivery, answer: Answer, at: datetime) -> Attempt:
    if answer.meaning is Meaning.DELIVERED:
        return Attempt(delivery, at, answer, "delivered", None)
    wait = retry.next_wait(delivery.attempts + 1, answer.retry_after, random.random())
    if wait is None or delivery.body is None:
        return Attempt(delivery, at, answer, "dead", None)
    return Attempt(delivery, at, answer, "retrying", wait)


def visits(rows: Iterable[Row], lease: UUID) -> list[Visit]:
    """The claimed rows, one visit for each endpoint."""
    found = []
    for _, group in groupby(rows, key=lambda row: row["endpoint_id"]):
        members = list(group)
        first = members[0]
        found.append(
            Visit(
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
        row["delivery_id"], row["subject"], row["webhook_id"], row["type"], row["attempts"], row["body"]
    )
