"""Every event that Opilio emits: its type, its version, the shape of its data, and a sample."""

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import msgspec

from opilio.contracts.analytics import ImpactReason
from opilio.contracts.events import (
    ALERT_RAISED,
    JOB_COMPLETED,
    JOB_FAILED,
    PARSING_ERRORS_EXCEEDED,
    PROJECT_STALLED,
    VALUE_ALERT,
    AlertRaised,
    JobCompleted,
    JobFailed,
    ParsingErrorsExceeded,
    ProjectStalled,
    ValueAlertFired,
)
from opilio.contracts.projects import MissingAnalysis
from opilio.contracts.webhooks import (
    ENDPOINT_DISABLED,
    ENDPOINT_PAUSED,
    WEBHOOK_TEST,
    EndpointStatus,
    WebhookTest,
)

_AT = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def _id(number: int) -> UUID:
    return UUID(f"0190a1b2-c3d4-7000-8000-{number:012d}")


@dataclass(frozen=True, slots=True)
class EventType:
    """A type of event. A change that an old reader would trip over gets a new version, and a new type."""

    name: str
    version: int
    data: type[msgspec.Struct]
    subject: str
    description: str
    sample: msgspec.Struct
    sample_subject: str


EVENT_TYPES = (
    EventType(
        JOB_COMPLETED,
        1,
        JobCompleted,
        "the URL",
        "A crawl succeeded and its result is stored; `changed` names the values that differ from the last result.",
        JobCompleted(
            job_id=_id(1),
            policy_id=_id(2),
            result_id=_id(3),
            url="https://shop.example/p/1",
            price=Decimal("1299000.00"),
            currency="VND",
            title="Bình giữ nhiệt 500 ml",
            in_stock=True,
            data={"sku": "B-500"},
            html_hash="sha256:6b86b273ff34fce1",
            crawl_duration=1.25,
            crawled_at=_AT,
            bot_id="bot-1",
            changed=["price"],
        ),
        "https://shop.example/p/1",
    ),
    EventType(
        JOB_FAILED,
        1,
        JobFailed,
        "the URL",
        "A job ended without a result: no retries were left, or none could help; `expired` when nobody answered.",
        JobFailed(
            job_id=_id(4),
            policy_id=_id(2),
            url="https://shop.example/p/1",
            reason="failed",
            error_code="CONTENT_NOT_FOUND",
            error_msg="404 Not Found",
            retry_count=3,
            max_retries=3,
            failure_count=1,
            policy_next_run=_AT,
            bot_id="bot-1",
        ),
        "https://shop.example/p/1",
    ),
    EventType(
        VALUE_ALERT,
        1,
        ValueAlertFired,
        "the URL",
        "A value that an alert watches crossed its limit, changed, or came back into stock.",
        ValueAlertFired(
            alert_id=_id(6),
            name="Bottles below 1.3 million",
            policy_id=_id(2),
            url="https://shop.example/p/1",
            field="price",
            old=Decimal("1399000.00"),
            new=Decimal("1299000.00"),
            at=_AT,
            percent=Decimal("-7.15"),
        ),
        "https://shop.example/p/1",
    ),
    EventType(
        PARSING_ERRORS_EXCEEDED,
        1,
        ParsingErrorsExceeded,
        "the project's id",
        "More than 5 % of the items of a batch could not be parsed: a crawler or a platform's format may have changed.",
        ParsingErrorsExceeded(
            project_id="proj123",
            platform="tiktok",
            job_id="proj123-brand-0",
            batch_index=3,
            items=50,
            parsing_errors=4,
            percent=8.0,
        ),
        "proj123",
    ),
    EventType(
        ALERT_RAISED,
        1,
        AlertRaised,
        "the project's id",
        "The risk of a post rose to high or critical; once for each level, however often the post is crawled.",
        AlertRaised(
            project_id="proj123",
            post_id="7312345678901234567",
            platform="tiktok",
            risk_level="critical",
            impact_score=91.5,
            intent="crisis",
            sentiment="negative",
            permalink="https://www.tiktok.com/@an/video/7312345678901234567",
            reasons=[
                ImpactReason(factor="reach", points=34.5, text="4,000,000 views"),
                ImpactReason(factor="risk", points=0.0, text="negative crisis, impact 91.5, large author"),
            ],
        ),
        "proj123",
    ),
    EventType(
        PROJECT_STALLED,
        1,
        ProjectStalled,
        "the project's id",
        "All tasks of a project are finished, but its analysis has stood still for OPILIO_ANALYZE_TIMEOUT_SECONDS.",
        ProjectStalled(
            project_id="proj123",
            analyze_total=173,
            analyze_done=148,
            analyze_errors=2,
            waiting_since=_AT,
            waiting_for=[
                MissingAnalysis(
                    job_id="proj123-brand-1", platforms=["tiktok", "youtube"], keyword="samsung", missing=23
                )
            ],
        ),
        "proj123",
    ),
    EventType(
        ENDPOINT_PAUSED,
        1,
        EndpointStatus,
        "the webhook's id",
        "A webhook failed for five days without a single success and gets nothing more until it is enabled.",
        EndpointStatus(
            endpoint_id=_id(5),
            url="https://app.example/hooks",
            status="paused",
            reason="every attempt since 2026-01-26 12:00 UTC failed; the last one: answered 503",
            since=_AT,
        ),
        str(_id(5)),
    ),
    EventType(
        ENDPOINT_DISABLED,
        1,
        EndpointStatus,
        "the webhook's id",
        "A webhook answered 410 Gone and gets nothing more until it is enabled.",
        EndpointStatus(
            endpoint_id=_id(5),
            url="https://app.example/hooks",
            status="disabled",
            reason="it answered 410 Gone",
            since=_AT,
        ),
        str(_id(5)),
    ),
    EventType(
        WEBHOOK_TEST,
        1,
        WebhookTest,
        "the webhook's id",
        "Sent on request to one webhook alone, never to the bus.",
        WebhookTest(endpoint_id=_id(5), message="If you can verify this, the endpoint works."),
        str(_id(5)),
    ),
)
