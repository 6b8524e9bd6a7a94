"""The bus protocol: how parts and processes exchange messages.

Two implementations pass one conformance suite: RabbitMQ (`opilio.rabbitmq.bus`) and tables of PostgreSQL
(`opilio.adapters.local_bus`).

Delivery is at least once: a handler is idempotent, and returns a verdict after its own commit.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol, TypeAlias, runtime_checkable
from uuid import uuid4

from opilio import tracing
from opilio.errors import OpilioError
from opilio.logs import get_logger

log = get_logger(__name__)

Headers: TypeAlias = Mapping[str, Any]
CONTENT_TYPE = "application/json"
CONTENT_ENCODING = "utf-8"
SCHEMA_VERSION = 1
MOST_RETRIES_AFTER_EXCEPTION = 10
# A message that moved to another queue keeps where it was first published.
ORIGINAL_EXCHANGE = "x-original-exchange"
ORIGINAL_ROUTING_KEY = "x-original-routing-key"


class Unpublishable(OpilioError):
    """A message that the bus can never take; the text says why."""


class Unroutable(Unpublishable):
    """A message that no queue is bound for; the publisher decides what that means."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to be published. `after` delays it on its way to the queue that the exchange `""` names."""

    exchange: str
    routing_key: str
    body: bytes
    headers: Headers = field(default_factory=dict)
    message_id: str = field(default_factory=lambda: str(uuid4()))
    correlation_id: str | None = None
    after: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """A message as a consumer gets it."""

    body: bytes
    queue: str
    exchange: str
    routing_key: str
    message_id: str
    correlation_id: str | None = None
    headers: Headers = field(default_factory=dict)
    deliveries: int = 1  # how often it was delivered, this time included
    retries: int = 0  # how often a consumer asked for a retry
    fault: str | None = None  # why it cannot be handled: its headers are malformed


@dataclass(frozen=True, slots=True)
class Ack:
    """Done: the message leaves its queue."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Deliver again after a wait, with the header `retry=true`."""

    after: timedelta
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Move to the queue's dead letters, the body untouched, the reason in `x-reason`."""

    reason: str


@dataclass(frozen=True, slots=True)
class Park:
    """Move to the parking queue `name` of the queue, until `Bus.unpark` moves it back."""

    name: str
    reason: str = ""


Verdict: TypeAlias = Ack | Retry | DeadLetter | Park
Handler: TypeAlias = Callable[[Message], Awaitable[Verdict]]


class Consumer(Protocol):
    """A running subscription."""

    async def close(self) -> None:
        """Takes nothing new, lets running handlers finish, returns the rest to the queue."""
        ...


@runtime_checkable
class Bus(Protocol):
    """What parts use of the bus."""

    async def publish(
        self,
        exchange: str,
        routing_key: str,
        body: bytes,
        *,
        headers: Headers | None = None,
        message_id: str | None = None,
        correlation_id: str | None = None,
        after: timedelta | None = None,
    ) -> None:
        """Returns when the message is stored; raises `Unpublishable`, or `Unavailable` when it may not be."""
        message = Outgoing(
            exchange, routing_key, body, headers or {}, message_id or str(uuid4()), correlation_id, after
        )
        [refused] = await self.publish_many([message])
        if refused:
            raise refused

    async def publish_many(self, messages: Sequence[Outgoing]) -> list[Unpublishable | None]:
        """Publishes in order; returns when all are stored, with the reason for each that cannot be."""
        ...

    async def consume(
        self, queue: str, handler: Handler, *, prefetch: int = 1, delivery_limit: int | None = 20
    ) -> Consumer:
        """Passes at most `prefetch` messages at once to `handler`, until closed, across reconnects.

        When a handler raises, its message is retried. A message delivered more than `delivery_limit` times
        without a verdict (it kills its consumer, for example) becomes a dead letter.
        """
        ...

    async def unpark(self, queue: str, name: str) -> int:
        """Moves all messages of a parking queue back to their queue; answers how many."""
        ...

    async def depth(self, queue: str) -> int:
        """How many messages a queue holds."""
        ...

    async def close(self) -> None: ...


def read_retries(headers: Headers) -> tuple[int, str | None]:
    """The count in `x-retries`, and what is wrong with it."""
    value = headers.get("x-retries", 0)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 9:
        return int(value), None
    if isinstance(value, int) and 0 <= value < 10**9:
        return value, None
    return 0, f"its header x-retries is not a count: {value!r:.100}"


async def verdict_of(message: Message, handler: Handler, delivery_limit: int | None) -> Verdict:
    """Calls the handler, unless the message must be dead-lettered without it."""
    if message.fault is not None:
        return DeadLetter(message.fault)
    if delivery_limit is not None and message.deliveries > delivery_limit:
        return DeadLetter(f"delivered {message.deliveries} times without a verdict")
    began = tracing.now()
    try:
        verdict = await handler(message)
    except Exception as error:
        _trace(message, began, f"{type(error).__name__}: {error}")
        log.exception("bus.handler_failed", queue=message.queue, message_id=message.message_id)
        return after_exception(error, message.retries)
    _trace(message, began, verdict.reason if isinstance(verdict, DeadLetter) else "")
    return verdict


def _trace(message: Message, began: int, error: str) -> None:
    if tracing.on():
        trace = str(message.headers.get("x-trace-id") or "")
        tracing.record(f"receive {message.queue}", trace, began, parent=tracing.ROOT, error=error)


def standard_headers(headers: Headers | None) -> dict[str, Any]:
    """The headers of every message; a trace id that the caller gives is kept."""
    return {"x-schema-version": SCHEMA_VERSION, "x-trace-id": uuid4().hex, **(headers or {})}


def after_exception(error: Exception, retries: int) -> Verdict:
    """The verdict when a handler raised: retry after 1, 2, 4 … 60 seconds, ten times."""
    reason = f"{type(error).__name__}: {error}"
    if retries >= MOST_RETRIES_AFTER_EXCEPTION:
        return DeadLetter(f"its handler failed {retries + 1} times, last with {reason}")
    return Retry(timedelta(seconds=min(2**retries, 60)), reason)


def topic_regex(pattern: str) -> str:
    """A topic pattern (`*` is a word, `#` is any number of them) as PostgreSQL and Python both read it."""
    words = pattern.split(".")
    if set(words) == {"#"}:
        return "^.*$"
    built, started = "", False
    for word in words:
        if word == "#":
            built += r"(\.[^.]+)*" if started else r"([^.]+\.)*"
            continue
        built += r"\." if started else ""
        built += "[^.]+" if word == "*" else _escaped(word)
        started = True
    return f"^{built}$"


def _escaped(word: str) -> str:
    return "".join(c if c.isalnum() or c in "_-" else f"\\{c}" for c in word)
