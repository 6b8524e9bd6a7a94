"""Writes the value history of a transaction: changes row by row, the first values of a crawl as one row."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from opilio.adapters.postgres import Row, Session
from opilio.crawl.history import Change
from opilio.crawl.sql import QUERIES

_encode = msgspec.json.Encoder(decimal_format="number").encode


async def write_history(session: Session, history: Sequence[tuple[Row, Change]], now: datetime) -> None:
    if changed := [(row, change) for row, change in history if change.old is not None]:
        await session.execute(QUERIES.add_changes, **_changes(changed, now))
    if first := [(row, change) for row, change in history if change.old is None]:
        await session.execute(QUERIES.add_first_values, **_first_values(first, now))


def _changes(changed: Sequence[tuple[Row, Change]], now: datetime) -> dict[str, list[Any]]:
    return {
        "policy_ids": [row["policy_id"] for row, _ in changed],
        "job_ids": [row["job_id"] for row, _ in changed],
        "fields": [change.field for _, change in changed],
        "olds": [change.old for _, change in changed],
        "news": [change.new for _, change in changed],
        "ats": [now for _ in changed],
    }


def _first_values(first: Sequence[tuple[Row, Change]], now: datetime) -> dict[str, list[Any]]:
    policies: dict[UUID, UUID] = {}
    seen: dict[UUID, list[tuple[str, Any]]] = {}
    for row, change in first:
        policies[row["job_id"]] = row["policy_id"]
        seen.setdefault(row["job_id"], []).append((change.field, change.new))
    return {
        "policy_ids": list(policies.values()),
        "job_ids": list(policies),
        "seen": [
            msgspec.Raw(_encode(values)) for values in seen.values()
        ],  # a list would be an array of arrays
        "ats": [now for _ in seen],
    }
