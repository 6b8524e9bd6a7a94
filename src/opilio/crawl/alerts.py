"""Value alerts: kept by operators, judged when results are stored."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
from msgspec import UNSET

from opilio import audit
from opilio.adapters.postgres import Database, Row, Session
from opilio.clock import Clock
from opilio.contracts.alerts import AlertInput, AlertPatch, AlertScope, ValueAlert
from opilio.contracts.events import VALUE_ALERT, ValueAlertFired
from opilio.crawl import alert as rules
from opilio.crawl.alert import Alert, AlertState, CrawledPage, Firing
from opilio.crawl.sql import QUERIES
from opilio.crawl.url import domain_name
from opilio.errors import NotFound
from opilio.pages import Page, page_of, read_uuid

_JUDGED = ("scope", "field", "when", "value", "currency")


class Alerts:
    """One function per verb, each with its audit entry."""

    def __init__(self, database: Database, *, clock: Clock | None = None) -> None:
        self._db = database
        self._clock = clock or Clock()

    async def create(self, wanted: AlertInput, by: str) -> ValueAlert:
        rules.check(wanted)

        async def work(session: Session) -> UUID:
            alert_id: UUID = await session.value(QUERIES.add_alert, **_columns(wanted), now=self._clock.now())
            await audit.record(session, by, "alert.create", str(alert_id), msgspec.to_builtins(wanted))
            return alert_id

        return await self.get(await self._db.transact(work))

    async def change(self, alert_id: UUID, patch: AlertPatch, by: str) -> ValueAlert:
        async def work(session: Session) -> None:
            row = await session.row(QUERIES.take_alert, alert_id=alert_id)
            if row is None:
                raise _not_found(alert_id)
            said = {f: getattr(patch, f) for f in patch.__struct_fields__ if getattr(patch, f) is not UNSET}
            wanted = msgspec.structs.replace(_input(row), **said)
            rules.check(wanted)
            await session.execute(
                QUERIES.change_alert,
                alert_id=alert_id,
                afresh=any(field in said for field in _JUDGED),
                now=self._clock.now(),
                **_columns(wanted),
            )
            await audit.record(session, by, "alert.change", str(alert_id), msgspec.to_builtins(patch))

        await self._db.transact(work)
        return await self.get(alert_id)

    async def delete(self, alert_id: UUID, by: str) -> None:
        async def work(session: Session) -> None:
            if await session.value(QUERIES.delete_alert, alert_id=alert_id) is None:
                raise _not_found(alert_id)
            await audit.record(session, by, "alert.delete", str(alert_id))

        await self._db.transact(work)

    async def get(self, alert_id: UUID) -> ValueAlert:
        rows = await self._db.fetch(QUERIES.list_alerts, alert_id=alert_id, before=None, limit=1)
        if not rows:
            raise _not_found(alert_id)
        return _shown(rows[0])

    async def page(self, *, limit: int = 50, cursor: str | None = None) -> Page[ValueAlert]:
        rows = await self._db.fetch(
            QUERIES.list_alerts, alert_id=None, before=read_uuid(cursor), limit=limit + 1
        )
        return page_of(rows, limit, _shown, lambda row: row["alert_id"])


async def check_alerts(session: Session, crawled: Sequence[CrawledPage], now: datetime) -> int:
    """Judges every alert that looks at these pages; what fires is logged in this transaction."""
    rows = await session.fetch(QUERIES.alerts_of_policies, policy_ids=[page.policy_id for page in crawled])
    if not rows:
        return 0
    pages = {page.policy_id: page for page in crawled}
    states: list[tuple[Row, AlertState]] = []
    events: list[ValueAlertFired] = []
    for row in rows:
        page, before = pages[row["policy_id"]], AlertState(row["fired_at"], row["holding"], row["seen"])
        firing, after = rules.judge(_alert(row), page.old, page.new, before, now)
        if after != before or not row["known"]:
            states.append((row, after))
        if firing is not None:
            events.append(_event(row, page, firing, now))
    if states:
        await session.execute(QUERIES.save_alert_states, **_states(states))
    if events:
        subjects = [event.url for event in events]
        await session.execute(
            QUERIES.add_alert_events, type=VALUE_ALERT, subjects=subjects, events=events, now=now
        )
    return len(events)


def _alert(row: Row) -> Alert:
    return Alert(
        row["alert_id"],
        row["name"],
        row["field"],
        row["condition"],
        row["value"],
        row["currency"],
        timedelta(hours=row["cooldown_hours"]),
    )


def _event(row: Row, page: CrawledPage, firing: Firing, now: datetime) -> ValueAlertFired:
    return ValueAlertFired(
        alert_id=row["alert_id"],
        name=row["name"],
        policy_id=page.policy_id,
        url=page.url,
        field=row["field"],
        old=firing.old,
        new=firing.new,
        at=now,
        percent=UNSET if firing.percent is None else firing.percent,
    )


def _states(states: Sequence[tuple[Row, AlertState]]) -> dict[str, list[Any]]:
    return {
        "alert_ids": [row["alert_id"] for row, _ in states],
        "policy_ids": [row["policy_id"] for row, _ in states],
        "fired_ats": [state.fired_at for _, state in states],
        "holdings": [state.holding for _, state in states],
        "seens": [state.seen for _, state in states],
    }


def _columns(alert: AlertInput) -> dict[str, Any]:
    scope = alert.scope
    return {
        "name": alert.name,
        "policy_id": scope.policy_id or None,
        "host": domain_name(scope.host) if scope.host else None,
        "labels": scope.labels or None,
        "everything": bool(scope.all),
        "field": alert.field,
        "condition": alert.when,
        "value": alert.value,
        "currency": alert.currency.upper() if alert.currency else None,
        "cooldown_hours": alert.cooldown_hours,
        "enabled": alert.enabled,
    }


def _scope(row: Row) -> AlertScope:
    if row["everything"]:
        return AlertScope(all=True)
    named = {name: row[name] for name in ("policy_id", "host", "labels") if row[name] is not None}
    return AlertScope(**named)


def _fields(row: Row) -> dict[str, Any]:
    value: Decimal | None = row["value"]
    return {
        "name": row["name"],
        "scope": _scope(row),
        "field": row["field"],
        "when": row["condition"],
        "value": value,
        "currency": row["currency"],
        "cooldown_hours": row["cooldown_hours"],
        "enabled": row["enabled"],
    }


def _input(row: Row) -> AlertInput:
    return AlertInput(**_fields(row))


def _shown(row: Row) -> ValueAlert:
    return ValueAlert(
        id=row["alert_id"],
        last_fired_at=row["last_fired_at"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        **_fields(row),
    )


def _not_found(alert_id: UUID) -> NotFound:
    return NotFound("there is no alert %(id)s", id=alert_id)
