"""The bodies of the management API for webhooks, events and dead letters."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

ENDPOINT_PAUSED = "webhook.endpoint.paused"
ENDPOINT_DISABLED = "webhook.endpoint.disabled"
WEBHOOK_TEST = "webhook.test"

Url = Annotated[
    str, Meta(min_length=8, max_length=2048, description="Where events are posted: http or https.")
]
Filters = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=200)]],
    Meta(min_length=1, max_length=50, description="Event types; * stands for any characters: crawl.job.*"),
]
Secret = Annotated[str, Meta(max_length=200, description="whsec_ and 24 to 64 random bytes in base64.")]
Concurrency = Annotated[int, Meta(ge=1, le=100, description="How many requests the endpoint takes at once.")]
Description = Annotated[str, Meta(max_length=500)]


class Request(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A body that a client sends: wrong types and unknown fields are refused by name."""


class EndpointCreate(Request, kw_only=True):
    url: Url
    events: Filters
    secret: Secret | None = None
    description: Description = ""
    max_concurrent: Concurrency = 4


class EndpointPatch(Request, kw_only=True):
    """What is left out stays. `enabled: true` also ends a pause, and sends what was missed meanwhile."""

    url: Url | UnsetType = UNSET
    events: Filters | UnsetType = UNSET
    description: Description | UnsetType = UNSET
    max_concurrent: Concurrency | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET


class SecretRotation(Request, kw_only=True):
    """A new secret; the old one goes on signing beside it for a while."""

    secret: Secret | None = None
    overlap_hours: Annotated[float, Meta(ge=0, le=720)] = 24


class Endpoint(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A webhook endpoint and how it is doing."""

    id: UUID
    kind: Literal["subscription", "direct"]
    url: str
    events: list[str]
    description: str
    enabled: bool
    status: Literal["active", "paused", "disabled"]
    status_since: datetime
    max_concurrent: int
    failures: int
    pending: int
    created_at: datetime
    updated_at: datetime
    status_reason: str | None = None
    failing_since: datetime | None = None
    next_attempt_at: datetime | None = None
    last_success_at: datetime | None = None
    last_failure_at: datetime | None = None
    last_error: str | None = None
    secret: str | None = None  # told once: when it was made


class Attempt(msgspec.Struct, kw_only=True):
    """One sending: what came back, or why nothing did."""

    id: UUID
    delivery_id: int
    webhook_id: str
    type: str
    attempt: int
    at: datetime
    status: int | None
    latency_ms: float
    outcome: Literal["delivered", "retrying", "dead"]
    error: str | None
    answer: str | None


class ReplayRequest(Request, kw_only=True):
    """Some events by their ids, or all that the endpoint wants since a time (and until another)."""

    ids: Annotated[list[UUID], Meta(min_length=1, max_length=1000)] | None = None
    since: datetime | None = None
    until: datetime | None = None


class ReplayAnswer(msgspec.Struct):
    replayed: int


class TestAnswer(msgspec.Struct, kw_only=True):
    """How an endpoint took a `webhook.test` event."""

    webhook_id: str
    delivered: bool
    status: int | None
    latency_ms: float
    error: str | None
    answer: str


class Event(msgspec.Struct, kw_only=True):
    """An event as it was sent."""

    id: UUID
    seq: int
    type: str
    subject: str
    time: datetime
    logged_at: datetime
    event: msgspec.Raw


class DeadLetter(msgspec.Struct, kw_only=True):
    """What was given up, with the reason; `body` is base64 where it is no text."""

    id: UUID
    queue: str
    source: str
    reason: str
    exchange: str
    routing_key: str
    message_id: str
    correlation_id: str | None
    headers: dict[str, Any]
    size: int
    dead_at: datetime
    replayed_at: datetime | None
    body: str | UnsetType = UNSET
    body_encoding: Literal["utf-8", "base64"] | UnsetType = UNSET


class EndpointStatus(msgspec.Struct, kw_only=True):
    """`webhook.endpoint.paused` and `webhook.endpoint.disabled`: an endpoint gets nothing more."""

    endpoint_id: UUID
    url: str
    status: Literal["paused", "disabled"]
    reason: str
    since: datetime


class WebhookTest(msgspec.Struct, kw_only=True):
    """`webhook.test`: sent on request to one endpoint alone."""

    endpoint_id: UUID
    message: str
