"""Dead letters of every kind: listed, shown and replayed."""

import base64
import math
from collections.abc import Iterable, Sequence
from typing import Any, Protocol
from uuid import NAMESPACE_URL, UUID, uuid5

from opilio import audit
from opilio.adapters.postgres import Database, Row, Session
from opilio.bus import ORIGINAL_EXCHANGE, ORIGINAL_ROUTING_KEY, Ack, Bus, Consumer, Message, Outgoing, Verdict
from opilio.contracts.topology import DEAD_LETTER_INDEX, Topology
from opilio.contracts.webhooks import DeadLetter
from opilio.delivery.outbox.routing import OutboxMessage, Route
from opilio.delivery.sql import QUERIES
from opilio.errors import Conflict, NotFound
from opilio.loop import Counts, Loop
from opilio.pages import Page, page_of, read_uuid

CHANNEL = "opilio_dead_letters"
_DEAD_LETTER_HEADERS = (
    "x-reason",
    "x-dead-letter-id",
    "x-dead-letter-queue",
    "x-queue",
    "x-retries",
)


class DeadLetters:
    """Lists, shows and replays.

    `route` is the relay's way to the bus.
    """

    def __init__(self, database: Database, route: Route) -> None:
        self._db = database
        self._route = route

    async def page(
        self, *, limit: int = 100, cursor: str | None = None, queue: str | None = None
    ) -> Page[DeadLetter]:
        rows = await self._fetch(before=read_uuid(cursor), queue=queue, most=limit + 1)
        return page_of(rows, limit, _dead_letter, lambda row: row["dead_letter_id"])

    async def get(self, id_: UUID) -> DeadLetter:
        rows = await self._fetch(id=id_, with_body=True)
        if not rows:
            raise NotFound("There is no dead letter %(id)s.", id=id_)
        return _dead_letter(rows[0])

    async def _fetch(self, **given: Any) -> list[Row]:
        defaults: dict[str, Any] = {"id": None, "before": None, "queue": None, "with_body": False, "most": 1}
        return await self._db.fetch(QUERIES.list_dead_letters, **(defaults | given))

    async def replay(self, id_: UUID, *, actor: str) -> DeadLetter:
        """Sends a message to the queue that dead-lettered it, or a webhook to its endpoint."""

        async def send(session: Session) -> None:
            row = await session.row(QUERIES.claim_dead_letter, id=id_)
            if row is None:
                return
            if row["delivery_id"] is not None:
                await _retry_webhook(session, row)
            else:
                await self._republish(session, row)
            await audit.record(session, actor, "dlq.replay", str(id_), {"queue": row["queue"]})

        letter = await self.get(id_)
        if letter.replayed_at is not None:
            raise Conflict(
                "The dead letter %(id)s was already replayed at %(at)s UTC.",
                id=id_,
                at=f"{letter.replayed_at:%Y-%m-%d %H:%M:%S}",
            )
        await self._db.transact(send)
        return await self.get(id_)

    async def _republish(self, session: Session, row: Row) -> None:
        headers = {name: value for name, value in row["headers"].items() if name not in _DEAD_LETTER_HEADERS}
        to_queue = bool(row["source"])
        if to_queue:  # it goes to one queue, and its consumer sees where it was first published
            headers |= {ORIGINAL_EXCHANGE: row["exchange"], ORIGINAL_ROUTING_KEY: row["routing_key"]}
        message = Outgoing(
            exchange="" if to_queue else row["exchange"],
            routing_key=row["source"] if to_queue else row["routing_key"],
            body=row["body"],
            headers={**headers, "retry": True},
            message_id=row["message_id"],
            correlation_id=row["correlation_id"],
        )
        seq = await session.value(QUERIES.next_seq)
        await self._route(session, [OutboxMessage(seq, f"dead-letter:{row['dead_letter_id']}", message)])


async def _retry_webhook(session: Session, row: Row) -> None:
    endpoint_id = UUID(row["source"])
    if not await session.fetch(QUERIES.lock_gates, endpoint_ids=[endpoint_id]):
        raise NotFound("The webhook %(id)s was deleted.", id=endpoint_id)
    await session.execute(
        QUERIES.retry_dead_delivery,
        endpoint_id=endpoint_id,
        subject=row["headers"].get("subject", row["message_id"]),
        webhook_id=row["message_id"],
        type=row["routing_key"],
        body=row["body"],
        now=None,
    )
    await session.fetch(QUERIES.reopen_gate, endpoint_id=endpoint_id, now=None)


class DeadLetterIndex:
    """Copies the broker's dead letters into the list; they stay in their queue as well."""

    def __init__(self, database: Database, bus: Bus, topology: Topology) -> None:
        self._db = database
        self._bus = bus
        self._sources = {queue.dead_letter_queue: queue.name for queue in topology.queues}

    async def start(self) -> Consumer:
        return await self._bus.consume(DEAD_LETTER_INDEX, self.keep, prefetch=50)

    async def keep(self, message: Message) -> Verdict:
        headers = dict(message.headers)
        queue = str(headers.get("x-dead-letter-queue", message.routing_key))
        named = headers.get("x-dead-letter-id")
        id_ = UUID(named) if named else uuid5(NAMESPACE_URL, f"{queue}/{message.message_id}")
        await self._db.execute(
            QUERIES.index_dead_letter,
            id=id_,
            queue=queue,
            source=str(headers.get("x-queue") or self._sources.get(queue, "")),
            reason=str(headers.get("x-reason") or "dead-lettered by the broker"),
            exchange=message.exchange,
            routing_key=message.routing_key,
            message_id=message.message_id,
            correlation_id=message.correlation_id,
            headers=_storable(headers),
            body=message.body,
        )
        return Ack()


class RemovesFromQueue(Protocol):
    """A broker whose dead-letter queues hold their own copy."""

    async def remove(self, queue: str, dead_letter_ids: Iterable[str]) -> set[str]: ...


class ReplayedDeadLetters:
    """Deletes replayed dead letters from the broker's queues, all of one queue in one pass."""

    def __init__(self, database: Database, broker: RemovesFromQueue, *, batch: int = 5000) -> None:
        self._db = database
        self._broker = broker
        self._batch = batch

    def loop(self) -> Loop:
        return Loop(
            "replayed_dead_letters",
            300,
            self.run_once,
            drain=True,
            pace=1,
            wake_on=[CHANNEL],
            notifications=self._db,
        )

    async def run_once(self) -> Counts:
        async with self._db.try_lock("opilio.delivery.dead_letters") as mine:
            rows = await self._db.fetch(QUERIES.replayed_in_broker, most=self._batch) if mine else []
            for queue, ids in _by_queue(rows).items():
                await self._broker.remove(queue, [str(id_) for id_ in ids])
                await self._db.execute(QUERIES.mark_removed, ids=ids)
        return {"removed": len(rows)}


def _by_queue(rows: Sequence[Row]) -> dict[str, list[UUID]]:
    found: dict[str, list[UUID]] = {}
    for row in rows:
        found.setdefault(row["queue"], []).append(row["dead_letter_id"])
    return found


def _dead_letter(row: Row) -> DeadLetter:
    names = ("queue", "source", "reason", "exchange", "routing_key", "message_id", "correlation_id", "headers",
             "size", "dead_at", "replayed_at")  # fmt: skip
    letter = DeadLetter(id=row["dead_letter_id"], **{name: row[name] for name in names})
    if row["body"] is not None:
        letter.body, letter.body_encoding = _readable(row["body"])
    return letter


def _storable(value: Any) -> Any:
    """Headers as PostgreSQL can store them: no NUL characters, whatever the publisher sent."""
    match value:
        case str():
            return value.replace("\0", "\ufffd")
        case dict():
            return {_storable(str(name)): _storable(each) for name, each in value.items()}
        case list() | tuple():
            return [_storable(each) for each in value]
        case float() if not math.isfinite(value):
            return str(value)
    return value


def _readable(body: bytes) -> tuple[str, Any]:
    try:
        return body.decode(), "utf-8"
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), "base64"
