"""The bus: how parts and processes hand messages to each other.

Two implementations keep this protocol and pass one conformance suite: RabbitMQ
(`opilio.rabbitmq.bus`) and tables of PostgreSQL (`opilio.adapters.local_bus`).

Delivery is at least once: a handler is idempotent, and answers with a verdict after its own commit.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol, TypeAlias, runtime_checkable
from uuid import uuid4

from opilio.errors import OpilioError

Headers: TypeAlias = Mapping[str, Any]
CONTENT_TYPE = "application/json"
CONTENT_ENCODING = "utf-8"
SCHEMA_VERSION = 1
MOST_RETRIES_AFTER_EXCEPTION = 10


class Unroutable(OpilioError):
    """A message that no queue is bound for; whoever published it decides what that means."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to be published. `after` is for a delay queue, named on the exchange `""`."""

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
    deliveries: int = 1  # how often it was handed out, this time included
    retries: int = 0  # how often a consumer asked for it again


@dataclass(frozen=True, slots=True)
class Ack:
    """Done: the message leaves its queue."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Again after a delay, by way of the queue's delay queues, with the header `retry=true`."""

    after: timedelta
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Hopeless: to the queue's dead letters, the body untouched, the reason in `x-reason`."""

    reason: str


@dataclass(frozen=True, slots=True)
class Hold:
    """Not for this consumer: it stays in its queue, unacknowledged, until this consumer ends.

    Messages behind it go on; when the consumer closes, or dies, the message is handed out again.
    """

    reason: str = ""


Verdict: TypeAlias = Ack | Retry | DeadLetter | Hold
Handler: TypeAlias = Callable[[Message], Awaitable[Verdict]]


class Consumer(Protocol):
    """A running subscription."""

    async def close(self) -> None:
        """Takes nothing new, lets what is being handled end, gives back the rest."""
        ...


@runtime_checkable
class Bus(Protocol):
    """What a part sees of the bus."""

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
        """Returns when the message is safe; raises `Unroutable`, or `Unavailable` when it may not be."""
        message = Outgoing(
            exchange, routing_key, body, headers or {}, message_id or str(uuid4()), correlation_id, after
        )
        [unroutable] = await self.publish_many([message])
        if unroutable:
            raise unroutable

    async def publish_many(self, messages: Sequence[Outgoing]) -> list[Unroutable | None]:
        """Publishes in order and returns when all are safe, saying which had no queue to go to."""
        ...

    async def consume(
        self, queue: str, handler: Handler, *, prefetch: int = 1, delivery_limit: int | None = 20
    ) -> Consumer:
        """Hands at most `prefetch` messages at once to `handler`, until closed, across reconnects.

        A handler that raises is asked again later. A message handed out more than `delivery_limit`
        times without a verdict (it kills its consumer, say) becomes a dead letter.
        """
        ...

    async def depth(self, queue: str) -> int:
        """How many messages a queue holds."""
        ...

    async def close(self) -> None: ...


def standard_headers(headers: Headers | None) -> dict[str, Any]:
    """The headers that everything published carries; the trace goes on where the caller names one."""
    return {"x-schema-version": SCHEMA_VERSION, "x-trace-id": uuid4().hex, **(headers or {})}


def after_exception(error: Exception, retries: int) -> Verdict:
    """What becomes of a message whose handler raised: again after 1, 2, 4 … 60 seconds, ten times."""
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
