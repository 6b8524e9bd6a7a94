"""Webhook endpoints, the event log and dead letters over HTTP."""

from typing import Annotated, Any

from msgspec import Meta

from opilio.contracts.webhooks import (
    Attempt,
    DeadLetter,
    Endpoint,
    EndpointCreate,
    EndpointPatch,
    Event,
    ReplayAnswer,
    ReplayRequest,
    SecretRotation,
    TestAnswer,
)
from opilio.web.api.shared import ListQuery
from opilio.web.routes import Call, Registry

WEBHOOKS = Registry()
_PATH = "/api/v1/webhooks"


class EventQuery(ListQuery, kw_only=True, forbid_unknown_fields=True):
    type: Annotated[str, Meta(max_length=200)] | None = None
    subject: Annotated[str, Meta(max_length=2048)] | None = None


class DeadLetterQuery(ListQuery, kw_only=True, forbid_unknown_fields=True):
    queue: Annotated[str, Meta(max_length=200)] | None = None


@WEBHOOKS.add(
    "POST",
    _PATH,
    "write",
    "Add an endpoint; its secret is told this once",
    body=EndpointCreate,
    answer=Endpoint,
    status=201,
    tag="webhooks",
)
async def create_webhook(call: Call) -> Any:
    return await call.opilio.webhooks.create(call.body, actor=call.actor)


@WEBHOOKS.add("GET", _PATH, "read", "List endpoints", query=ListQuery, answer=list[Endpoint], tag="webhooks")
async def list_webhooks(call: Call) -> Any:
    return await call.opilio.webhooks.page(limit=call.query.limit, cursor=call.query.cursor)


@WEBHOOKS.add(
    "GET",
    f"{_PATH}/{{id:str}}",
    "read",
    "One endpoint",
    answer=Endpoint,
    errors=("not_found",),
    tag="webhooks",
)
async def get_webhook(call: Call) -> Any:
    return await call.opilio.webhooks.get(call.uuid())


@WEBHOOKS.add(
    "PATCH",
    f"{_PATH}/{{id:str}}",
    "write",
    "Change an endpoint; `enabled: true` ends a pause",
    body=EndpointPatch,
    answer=Endpoint,
    errors=("not_found", "conflict"),
    tag="webhooks",
)
async def patch_webhook(call: Call) -> Any:
    return await call.opilio.webhooks.change(call.uuid(), call.body, actor=call.actor)


@WEBHOOKS.add(
    "DELETE",
    f"{_PATH}/{{id:str}}",
    "write",
    "Delete an endpoint and what waits for it",
    answer=dict[str, str],
    errors=("not_found",),
    tag="webhooks",
)
async def delete_webhook(call: Call) -> Any:
    endpoint_id = call.uuid()
    await call.opilio.webhooks.delete(endpoint_id, actor=call.actor)
    return {"id": str(endpoint_id), "status": "deleted"}


@WEBHOOKS.add(
    "POST",
    f"{_PATH}/{{id:str}}/secret",
    "write",
    "A new secret; the old one signs beside it for a while",
    body=SecretRotation,
    optional_body=True,
    answer=Endpoint,
    errors=("not_found",),
    tag="webhooks",
)
async def rotate_secret(call: Call) -> Any:
    return await call.opilio.webhooks.rotate_secret(
        call.uuid(), call.body or SecretRotation(), actor=call.actor
    )


@WEBHOOKS.add(
    "GET",
    f"{_PATH}/{{id:str}}/attempts",
    "read",
    "What was sent, newest first",
    query=ListQuery,
    answer=list[Attempt],
    errors=("not_found",),
    tag="webhooks",
)
async def webhook_attempts(call: Call) -> Any:
    return await call.opilio.webhooks.attempts(call.uuid(), limit=call.query.limit, cursor=call.query.cursor)


@WEBHOOKS.add(
    "POST",
    f"{_PATH}/{{id:str}}/replay",
    "write",
    "Send events again: by id, or since a time; they keep their webhook-id",
    body=ReplayRequest,
    answer=ReplayAnswer,
    errors=("not_found", "conflict"),
    tag="webhooks",
)
async def replay_webhook(call: Call) -> Any:
    return await call.opilio.webhooks.replay(call.uuid(), call.body, actor=call.actor)


@WEBHOOKS.add(
    "POST",
    f"{_PATH}/{{id:str}}/test",
    "write",
    "Send a webhook.test event now and tell what came back",
    answer=TestAnswer,
    errors=("not_found",),
    tag="webhooks",
)
async def test_webhook(call: Call) -> Any:
    return await call.opilio.webhooks.test(call.uuid(), actor=call.actor)


@WEBHOOKS.add(
    "GET",
    "/api/v1/events",
    "read",
    "Events, newest first",
    query=EventQuery,
    answer=list[Event],
    tag="webhooks",
)
async def list_events(call: Call) -> Any:
    q: EventQuery = call.query
    types = [q.type] if q.type is not None else None
    return await call.opilio.events.page(limit=q.limit, cursor=q.cursor, types=types, subject=q.subject)


@WEBHOOKS.add(
    "GET", "/api/v1/events/{id:str}", "read", "One event", answer=Event, errors=("not_found",), tag="webhooks"
)
async def get_event(call: Call) -> Any:
    return await call.opilio.events.get(call.uuid())


@WEBHOOKS.add(
    "GET",
    "/api/v1/dlq",
    "read",
    "Dead letters of every queue, newest first",
    query=DeadLetterQuery,
    answer=list[DeadLetter],
    tag="dead letters",
)
async def list_dead_letters(call: Call) -> Any:
    q: DeadLetterQuery = call.query
    return await call.opilio.dead_letters.page(limit=q.limit, cursor=q.cursor, queue=q.queue)


@WEBHOOKS.add(
    "GET",
    "/api/v1/dlq/{id:str}",
    "read",
    "One dead letter with its body",
    answer=DeadLetter,
    errors=("not_found",),
    tag="dead letters",
)
async def get_dead_letter(call: Call) -> Any:
    return await call.opilio.dead_letters.get(call.uuid())


@WEBHOOKS.add(
    "POST",
    "/api/v1/dlq/{id:str}/replay",
    "write",
    "Send a dead letter again",
    answer=DeadLetter,
    errors=("not_found", "conflict"),
    tag="dead letters",
)
async def replay_dead_letter(call: Call) -> Any:
    return await call.opilio.dead_letters.replay(call.uuid(), actor=call.actor)
