"""The bodies of the bot API: pull, submit, batch, heartbeat, release."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

Queue = Literal["http", "js", "special"]
BotId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=100,
        pattern=r"^[A-Za-z0-9._:@-]+$(?!\n)",  # "$" alone also matches before a line feed
        description="Who the bot is; its token is bound to this id.",
    ),
]
# Kept as the digits that came, so that a price stays exact: a float would lose them. Read by contracts/price.py.
ExactNumber = Annotated[
    msgspec.Raw,
    Meta(
        extra_json_schema={
            "anyOf": [
                {"type": "number", "minimum": 0},
                {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?$"},
                {"type": "null"},
            ],
            "description": "A number, or its digits as a text; stored exactly as sent.",
            "examples": [99.9, "99.90"],
        }
    ),
]


class Request(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A body that a bot sends: wrong types and unknown fields are refused by name."""


class PullRequest(Request, kw_only=True):
    bot_id: BotId
    max_jobs: Annotated[int, Meta(ge=1, le=100)] = 10
    domain: Annotated[str, Meta(min_length=1, max_length=253)] | None = None
    capabilities: Annotated[list[Queue], Meta(min_length=1, max_length=3)] = msgspec.field(
        default_factory=lambda: ["http"]
    )
    wait_seconds: Annotated[float, Meta(ge=0, le=30)] = 0


class Validators(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What a server said about its page, for a conditional request: 304 costs nearly nothing."""

    etag: Annotated[str, Meta(min_length=1, max_length=1024)] | None = None
    last_modified: Annotated[str, Meta(min_length=1, max_length=64)] | None = None


class PulledJob(msgspec.Struct, kw_only=True, omit_defaults=True):
    job_id: UUID
    url: str
    priority: int
    queue: str
    crawl_config: dict[str, Any]
    rule_set: Any
    max_retries: int
    retry_count: int
    timeout_seconds: float
    locked_until: datetime
    lock_token: UUID
    validators: Validators | None = None


class PullAnswer(msgspec.Struct, kw_only=True, omit_defaults=True):
    jobs: list[PulledJob]
    count: int
    skipped: int
    retry_after: float | None = None


class Outcome(Request, kw_only=True):
    """What came of one job; `SubmitRequest` and the items of a batch share it."""

    job_id: UUID
    success: bool
    lock_token: UUID | None = None
    price: ExactNumber = msgspec.field(default_factory=lambda: msgspec.Raw(b"null"))
    currency: (
        Annotated[str, Meta(pattern=r"^[A-Za-z]{3}$(?!\n)", description="ISO 4217, three letters.")] | None
    ) = None
    title: Annotated[str, Meta(max_length=2000)] | None = None
    in_stock: bool | None = None
    data: dict[str, Any] | None = None
    raw_html: str | None = None
    html_hash: Annotated[str, Meta(max_length=128)] | None = None
    crawl_duration: Annotated[float, Meta(ge=0, le=86_400, description="Seconds, at most a day.")] | None = (
        None
    )
    error_msg: Annotated[str, Meta(max_length=4000)] | None = None
    error_code: Annotated[str, Meta(min_length=1, max_length=64)] | None = None
    retry_after: (
        Annotated[float, Meta(ge=0, description="Seconds that the host asked to be left alone.")] | None
    ) = None
    not_modified: Annotated[
        bool, Meta(description="The page answered 304 or is known to be unchanged; success without values.")
    ] = False
    validators: Validators | None = None
    changed_at: (
        Annotated[datetime, Meta(tz=True, description="When the page changed, if the bot knows.")] | None
    ) = None


class SubmitRequest(Outcome, kw_only=True):
    bot_id: BotId


class BatchRequest(Request, kw_only=True):
    bot_id: BotId
    results: Annotated[list[Outcome], Meta(min_length=1, max_length=100)]


class BatchBody(Request, kw_only=True):
    """A `BatchRequest` as it is read: each result is decoded on its own, so that a bad one is refused alone."""

    bot_id: BotId
    results: msgspec.Raw


class HeldJob(Request, kw_only=True):
    job_id: UUID
    lock_token: UUID


class HeldRequest(Request, kw_only=True):
    """The body of heartbeat and release."""

    bot_id: BotId
    jobs: Annotated[list[HeldJob], Meta(min_length=1, max_length=100)]


class DoneAnswer(msgspec.Struct, kw_only=True):
    result_id: UUID | None
    job_id: UUID
    price: Decimal | None
    currency: str | None
    policy_next_run: datetime
    status: Literal["done"] = "done"


class RetryAnswer(msgspec.Struct, kw_only=True):
    job_id: UUID
    retry_count: int
    max_retries: int
    message: str
    status: Literal["pending"] = "pending"


class FailedAnswer(msgspec.Struct, kw_only=True):
    job_id: UUID
    retry_count: int
    max_retries: int
    message: str
    policy_next_run: datetime
    status: Literal["failed"] = "failed"


class HeartbeatAnswer(msgspec.Struct, kw_only=True):
    locked_until: datetime


class ReleaseAnswer(msgspec.Struct, kw_only=True):
    status: Literal["pending"] = "pending"


class ItemAnswer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One item of a batch, answered on its own, in the order of the request."""

    job_id: UUID | None
    success: bool
    data: Any = None
    error: Any = None


class BatchAnswer(msgspec.Struct, kw_only=True):
    results: list[ItemAnswer]


class HeldAnswer(msgspec.Struct, kw_only=True):
    jobs: list[ItemAnswer]
