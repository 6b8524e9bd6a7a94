"""Webhook endpoints, managed: what the API and the command line do with them."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
from msgspec import UNSET

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
from opilio.delivery.outbox.routing import sql
from opilio.delivery.webhooks import address, filters, signature
from opilio.delivery.webhooks.health import Meaning
from opilio.errors import Invalid, NotFound
from opilio.net.allowed_addresses import PUBLIC_ONLY, AllowList
from opilio.pages import Page, page_of, read_uuid

# What a paused endpoint missed is looked for from a little earlier: clocks of several processes meet here.
_MARGIN = timedelta(minutes=1)


class Webhooks:
    """Creates, lists, changes and deletes endpoints; tests and replays."""

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

    async def create(self, request: EndpointCreate) -> Endpoint:
        """Answers the endpoint with its secret, which is told this once."""
        url = address.checked(request.url, self._allow)
        events = filters.checked(request.events)
        secret = signature.checked_secret(request.secret) if request.secret else signature.new_secret()
        endpoint_id = await self._db.value(
            sql.create_endpoint,
            kind="subscription",
            url=url,
            events=events,
            event_regex=filters.to_regex(events),
            secret=secret,
            description=request.description,
            host=address.host_of(url),
            max_concurrent=request.max_concurrent,
            now=self._now(),
        )
        return msgspec.structs.replace(await self.get(endpoint_id), secret=secret)

    async def page(self, *, limit: int = 100, cursor: str | None = None) -> Page[Endpoint]:
        rows = await self._db.fetch(
            sql.list_endpoints, endpoint_id=None, before=read_uuid(cursor), most=limit + 1
        )
        return page_of(rows, limit, _endpoint, lambda row: row["endpoint_id"])

    async def get(self, endpoint_id: UUID) -> Endpoint:
        row = await self._db.row(sql.list_endpoints, endpoint_id=endpoint_id, before=None, most=1)
        if row is None:
            raise NotFound(f"There is no webhook {endpoint_id}.")
        return _endpoint(row)

    async def patch(self, endpoint_id: UUID, patch: EndpointPatch) -> Endpoint:
        url = None if patch.url is UNSET else address.checked(patch.url, self._allow)
        events = None if patch.events is UNSET else filters.checked(patch.events)
        status = None if patch.enabled is UNSET else ("active" if patch.enabled else "disabled")
        now = self._now()
        params: dict[str, Any] = {
            "endpoint_id": endpoint_id,
            "url": url,
            "host": address.host_of(url) if url else None,
            "events": events,
            "event_regex": filters.to_regex(events) if events else None,
            "description": None if patch.description is UNSET else patch.description,
            "max_concurrent": None if patch.max_concurrent is UNSET else patch.max_concurrent,
            "status": status,
            "reason": "switched off by hand" if status == "disabled" else None,
            "fresh": url is not None or status == "active",
            "now": now,
        }

        async def change(session: Session) -> None:
            await session.fetch(sql.lock_gates, endpoint_ids=[endpoint_id])
            before = await session.row(sql.change_endpoint, **params)
            if before is None:
                raise NotFound(f"There is no webhook {endpoint_id}.")
            if status == "active":
                await self._resume(session, endpoint_id, before, now)

        await self._db.transact(change)
        return await self.get(endpoint_id)

    async def _resume(self, session: Session, endpoint_id: UUID, before: Row, now: datetime) -> None:
        """What waited is tried at once; what a pause kept from being queued is queued."""
        await session.execute(sql.try_waiting_now, endpoint_id=endpoint_id, now=now)
        if before["old_status"] == "paused":
            since = before["old_since"] - _MARGIN
            await session.execute(
                sql.replay_events, endpoint_id=endpoint_id, ids=None, since=since, until=None, now=now
            )
        await session.fetch(sql.reopen_gate, endpoint_id=endpoint_id, now=now)

    async def rotate_secret(self, endpoint_id: UUID, request: SecretRotation) -> Endpoint:
        """Answers the endpoint with its new secret; both sign until the overlap has passed."""
        secret = signature.checked_secret(request.secret) if request.secret else signature.new_secret()
        now = self._now()
        found = await self._db.value(
            sql.rotate_secret,
            endpoint_id=endpoint_id,
            secret=secret,
            old_until=now + timedelta(hours=request.overlap_hours),
            now=now,
        )
        if found is None:
            raise NotFound(f"There is no webhook {endpoint_id}.")
        return msgspec.structs.replace(await self.get(endpoint_id), secret=secret)

    async def delete(self, endpoint_id: UUID) -> None:
        async def remove(session: Session) -> None:
            await session.fetch(sql.lock_gates, endpoint_ids=[endpoint_id])
            if await session.value(sql.delete_endpoint, endpoint_id=endpoint_id) is None:
                raise NotFound(f"There is no webhook {endpoint_id}.")

        await self._db.transact(remove)

    async def attempts(
        self, endpoint_id: UUID, *, limit: int = 100, cursor: str | None = None, webhook_id: str | None = None
    ) -> Page[Attempt]:
        await self.get(endpoint_id)
        rows = await self._db.fetch(
            sql.list_attempts,
            endpoint_id=endpoint_id,
            before=read_uuid(cursor),
            webhook_id=webhook_id,
            most=limit + 1,
        )
        return page_of(rows, limit, _attempt, lambda row: row["attempt_id"])

    async def replay(self, endpoint_id: UUID, request: ReplayRequest) -> ReplayAnswer:
        """Sends again what was sent, or would have been; every webhook keeps its `webhook-id`."""
        if (request.ids is None) == (request.since is None):
            raise Invalid("since", "give either ids or since")
        endpoint = await self.get(endpoint_id)
        if endpoint.status != "active":
            raise Invalid("id", f"the endpoint is {endpoint.status}: enable it first")
        statement = sql.replay_events if endpoint.kind == "subscription" else sql.replay_direct
        now = self._now()

        async def queue(session: Session) -> int:
            await session.fetch(sql.lock_gates, endpoint_ids=[endpoint_id])
            count = await session.execute(
                statement,
                endpoint_id=endpoint_id,
                ids=request.ids,
                since=request.since,
                until=request.until,
                now=now,
            )
            if count:
                await session.fetch(sql.reopen_gate, endpoint_id=endpoint_id, now=now)
            return count

        return ReplayAnswer(await self._db.transact(queue))

    async def test(self, endpoint_id: UUID) -> TestAnswer:
        """Sends a `webhook.test` event now, whatever the endpoint's state, and tells how it was taken."""
        now = self._now()
        row = await self._db.row(sql.endpoint_to_test, endpoint_id=endpoint_id, now=now)
        if row is None:
            raise NotFound(f"There is no webhook {endpoint_id}.")
        event_id = uuid4()
        data = WebhookTest(endpoint_id=endpoint_id, message="If you can verify this, the endpoint works.")
        body = envelope(
            event_id=event_id,
            source=self._source,
            type_=WEBHOOK_TEST,
            subject=str(endpoint_id),
            time=now,
            data=msgspec.json.encode(data).decode(),
        )
        secrets = [secret for secret in (row["secret"], row["old_secret"]) if secret]
        from opilio.delivery.webhooks.client import Post  # noqa: PLC0415 - an HTTP client that only this needs

        async with Post(self._allow) as post:
            answer = await post.send(
                row["url"], body, signature.headers(str(event_id), datetime.now(UTC), body, secrets)
            )
        delivered = answer.meaning is Meaning.DELIVERED
        await self._db.execute(
            sql.record_test,
            endpoint_id=endpoint_id,
            subject=str(endpoint_id),
            webhook_id=str(event_id),
            type=WEBHOOK_TEST,
            body=body,
            state="delivered" if delivered else "dead",
            status=answer.status,
            latency_ms=answer.latency_ms,
            error=answer.complaint,
            answer=answer.head,
            now=now,
        )
        return TestAnswer(
            webhook_id=str(event_id),
            delivered=delivered,
            status=answer.status,
            latency_ms=answer.latency_ms,
            error=answer.complaint,
            answer=answer.head,
        )

    def _now(self) -> datetime:
        return self._clock.now() or datetime.now(UTC)


def _endpoint(row: Row) -> Endpoint:
    fields = dict(row)
    fields["id"] = fields.pop("endpoint_id")
    return Endpoint(**fields, enabled=row["status"] == "active")


def _attempt(row: Row) -> Attempt:
    fields = dict(row)
    fields["id"] = fields.pop("attempt_id")
    return Attempt(**fields)
