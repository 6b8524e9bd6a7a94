"""Manages webhook endpoints: one function per verb, with its audit entry, for API, dashboard and CLI."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
from msgspec import UNSET

from opilio import audit
from opilio.adapters.postgres import Database, Row, Session
from opilio.clock import Clock
from opilio.contracts.webhooks import (
    WEBHOOK_TEST,
    Attempt,
    Endpoint,
    EndpointCreate,
    EndpointPatch,
    ReplayAnswer,
    ReplayRequest,
    SecretRotation,
    TestAnswer,
    WebhookTest,
)
from opilio.delivery.outbox.envelope import envelope
from opilio.delivery.sql import QUERIES
from opilio.delivery.webhooks import address, filters, signature
from opilio.delivery.webhooks.health import ResponseKind
from opilio.errors import Invalid, NotFound
from opilio.net.allowed_addresses import PUBLIC_ONLY, AllowList
from opilio.pages import Page, page_of, read_uuid

# Events that a paused endpoint missed are looked for from a little before the pause.
_MARGIN = timedelta(minutes=1)


class Webhooks:
    """Creates, lists, changes, tests and deletes endpoints, and replays their events."""

    def __init__(
        self,
        database: Database,
        *,
        allow: AllowList = PUBLIC_ONLY,
        source: str = "opilio",
        clock: Clock | None = None,
    ) -> None:
        self._db = database
        self._allow = allow
        self._source = source
        self._clock = clock or Clock()

    async def create(self, request: EndpointCreate, *, actor: str) -> Endpoint:
        """Answers the endpoint with its secret, which is shown only once."""
        url = address.checked(request.url, self._allow)
        events = filters.checked(request.events)
        secret = signature.checked_secret(request.secret) if request.secret else signature.new_secret()

        async def insert(session: Session) -> UUID:
            endpoint_id: UUID = await session.value(
                QUERIES.create_endpoint,
                kind="subscription",
                url=url,
                events=events,
                event_regex=filters.to_regex(events),
                secret=secret,
                description=request.description,
                host=address.host_of(url),
                max_concurrent=request.max_concurrent,
                now=self._clock.now(),
            )
            await audit.record(session, actor, "webhook.create", str(endpoint_id), {"url": url})
            return endpoint_id

        endpoint_id = await self._db.transact(insert)
        return msgspec.structs.replace(await self.get(endpoint_id), secret=secret)

    async def page(self, *, limit: int = 100, cursor: str | None = None) -> Page[Endpoint]:
        rows = await self._db.fetch(
            QUERIES.list_endpoints, endpoint_id=None, before=read_uuid(cursor), most=limit + 1
        )
        return page_of(rows, limit, _endpoint, lambda row: row["endpoint_id"])

    async def get(self, endpoint_id: UUID) -> Endpoint:
        row = await self._db.row(QUERIES.list_endpoints, endpoint_id=endpoint_id, before=None, most=1)
        if row is None:
            raise _not_found(endpoint_id)
        return _endpoint(row)

    async def change(self, endpoint_id: UUID, patch: EndpointPatch, *, actor: str) -> Endpoint:
        """What the patch leaves out stays; enabling a paused endpoint sends what it missed."""
        url = None if patch.url is UNSET else address.checked(patch.url, self._allow)
        events = None if patch.events is UNSET else filters.checked(patch.events)
        status = None if patch.enabled is UNSET else ("active" if patch.enabled else "disabled")
        now = self._clock.now()
        params: dict[str, Any] = {
            "endpoint_id": endpoint_id,
            "url": url,
            "host": address.host_of(url) if url else None,
            "events": events,
            "event_regex": filters.to_regex(events) if events else None,
            "description": None if patch.description is UNSET else patch.description,
            "max_concurrent": None if patch.max_concurrent is UNSET else patch.max_concurrent,
            "status": status,
            "reason": "disabled by an operator" if status == "disabled" else None,
            "fresh": url is not None or status == "active",
            "now": now,
        }

        async def change(session: Session) -> None:
            await session.fetch(QUERIES.lock_gates, endpoint_ids=[endpoint_id])
            before = await session.row(QUERIES.change_endpoint, **params)
            if before is None:
                raise _not_found(endpoint_id)
            if status == "active":
                await self._resume(session, endpoint_id, before)
            await audit.record(session, actor, "webhook.change", str(endpoint_id), msgspec.to_builtins(patch))

        await self._db.transact(change)
        return await self.get(endpoint_id)

    async def _resume(self, session: Session, endpoint_id: UUID, before: Row) -> None:
        """Retries waiting deliveries now; the events that a pause left out are queued by the backfill, in steps."""
        now = self._clock.now()
        await session.execute(QUERIES.try_waiting_now, endpoint_id=endpoint_id, now=now)
        if before["old_status"] == "paused":
            since = before["old_since"] - _MARGIN
            await session.execute(QUERIES.begin_backfill, endpoint_id=endpoint_id, since=since)
        await session.fetch(QUERIES.reopen_gate, endpoint_id=endpoint_id, now=now)

    async def rotate_secret(self, endpoint_id: UUID, request: SecretRotation, *, actor: str) -> Endpoint:
        """Answers the endpoint with its new secret; both secrets sign until the overlap has passed."""
        secret = signature.checked_secret(request.secret) if request.secret else signature.new_secret()
        now = self._clock.now()

        async def rotate(session: Session) -> None:
            found = await session.value(
                QUERIES.rotate_secret,
                endpoint_id=endpoint_id,
                secret=secret,
                overlap=request.overlap_hours * 3600,
                now=now,
            )
            if found is None:
                raise _not_found(endpoint_id)
            await audit.record(session, actor, "webhook.rotate", str(endpoint_id))

        await self._db.transact(rotate)
        return msgspec.structs.replace(await self.get(endpoint_id), secret=secret)

    async def delete(self, endpoint_id: UUID, *, actor: str) -> None:
        """Deletes an endpoint and its pending deliveries."""

        async def remove(session: Session) -> None:
            await session.fetch(QUERIES.lock_gates, endpoint_ids=[endpoint_id])
            if await session.value(QUERIES.delete_endpoint, endpoint_id=endpoint_id) is None:
                raise _not_found(endpoint_id)
            await audit.record(session, actor, "webhook.delete", str(endpoint_id))

        await self._db.transact(remove)

    async def attempts(
        self, endpoint_id: UUID, *, limit: int = 100, cursor: str | None = None, webhook_id: str | None = None
    ) -> Page[Attempt]:
        await self.get(endpoint_id)
        rows = await self._db.fetch(
            QUERIES.list_attempts,
            endpoint_id=endpoint_id,
            before=read_uuid(cursor),
            webhook_id=webhook_id,
            most=limit + 1,
        )
        return page_of(rows, limit, _attempt, lambda row: row["attempt_id"])

    async def replay(self, endpoint_id: UUID, request: ReplayRequest, *, actor: str) -> ReplayAnswer:
        """Sends matching events again, whether they were sent before or not; each keeps its `webhook-id`."""
        if (request.ids is None) == (request.since is None):
            raise Invalid("since", "give either ids or since")
        endpoint = await self.get(endpoint_id)
        if endpoint.status != "active":
            raise Invalid("id", "the endpoint is %(status)s: enable it first", status=endpoint.status)
        statement = QUERIES.replay_events if endpoint.kind == "subscription" else QUERIES.replay_direct
        now = self._clock.now()

        async def queue(session: Session) -> int:
            await session.fetch(QUERIES.lock_gates, endpoint_ids=[endpoint_id])
            count = await session.execute(
                statement,
                endpoint_id=endpoint_id,
                ids=request.ids,
                since=request.since,
                until=request.until,
                now=now,
            )
            if count:
                await session.fetch(QUERIES.reopen_gate, endpoint_id=endpoint_id, now=now)
            await audit.record(session, actor, "webhook.replay", str(endpoint_id), {"replayed": count})
            return count

        return ReplayAnswer(await self._db.transact(queue))

    async def test(self, endpoint_id: UUID, *, actor: str) -> TestAnswer:
        """Sends a `webhook.test` event now, whatever the endpoint's status, and answers what came back."""
        now = self._clock.now()
        row = await self._db.row(QUERIES.endpoint_to_test, endpoint_id=endpoint_id, now=now)
        if row is None:
            raise _not_found(endpoint_id)
        event_id = uuid4()
        data = WebhookTest(endpoint_id=endpoint_id, message="If you can verify this, the endpoint works.")
        body = envelope(
            event_id=event_id,
            source=self._source,
            type_=WEBHOOK_TEST,
            subject=str(endpoint_id),
            time=self._clock.now() or datetime.now(UTC),
            data=msgspec.json.encode(data).decode(),
        )
        secrets = [secret for secret in (row["secret"], row["old_secret"]) if secret]
        from opilio.delivery.webhooks.client import WebhookClient  # noqa: PLC0415 - only this needs an HTTP client

        async with WebhookClient(self._allow) as client:
            response = await client.send(
                row["url"], body, signature.headers(str(event_id), datetime.now(UTC), body, secrets)
            )
        answer = TestAnswer(
            webhook_id=str(event_id),
            delivered=response.kind is ResponseKind.DELIVERED,
            status=response.status,
            latency_ms=response.latency_ms,
            error=response.error_text,
            answer=response.body_start,
        )
        await self._record_test(endpoint_id, answer, body, actor)
        return answer

    async def _record_test(self, endpoint_id: UUID, answer: TestAnswer, body: bytes, actor: str) -> None:
        async def record(session: Session) -> None:
            await session.execute(
                QUERIES.record_test,
                endpoint_id=endpoint_id,
                subject=str(endpoint_id),
                webhook_id=answer.webhook_id,
                type=WEBHOOK_TEST,
                body=body,
                state="delivered" if answer.delivered else "dead",
                status=answer.status,
                latency_ms=answer.latency_ms,
                error=answer.error,
                answer=answer.answer,
                now=self._clock.now(),
            )
            details = {"delivered": answer.delivered}
            await audit.record(session, actor, "webhook.test", str(endpoint_id), details)

        await self._db.transact(record)


def _not_found(endpoint_id: UUID) -> NotFound:
    return NotFound("There is no webhook %(id)s.", id=endpoint_id)


def _endpoint(row: Row) -> Endpoint:
    fields = dict(row)
    fields["id"] = fields.pop("endpoint_id")
    return Endpoint(**fields, enabled=row["status"] == "active")


def _attempt(row: Row) -> Attempt:
    fields = dict(row)
    fields["id"] = fields.pop("attempt_id")
    return Attempt(**fields)
