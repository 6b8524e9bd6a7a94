"""A week that the demo shop never had: its prices as they would have been, and the crawls that found them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from opilio.adapters.postgres import Database, load_queries
from opilio.demo.catalogue import Product, Quote, product, quote

_Q = load_queries("opilio.runtime")
_WEEK = timedelta(days=7)
_STEP = timedelta(hours=3)
_RUNS = timedelta(hours=12)
_ERRORS = {
    "missing": ("NOT_FOUND", "404 Not Found"),
    "removed": ("GONE", "410 Gone"),
    "broken": ("SERVER_ERROR", "500 Internal Server Error"),
    "forbidden": ("BLOCKED_BY_ROBOTS", "robots.txt forbids this page"),
    "glacial": ("TIMEOUT", "the page did not answer in time"),
}


@dataclass(frozen=True, slots=True)
class _Run:
    job_id: UUID
    result_id: UUID | None
    policy_id: UUID
    item: Product
    at: datetime
    found: Quote | None


async def add_history(database: Database, now: datetime | None = None) -> None:
    """Writes the week up to now for the demo's policies, which have no history of their own yet."""
    until = now or datetime.now(UTC)
    policies = await database.fetch(_Q.demo_policies)
    runs = [
        run
        for row in policies
        if (item := product(row["number"])) is not None
        for run in _runs(row["policy_id"], item, until)
    ]
    await database.execute(_Q.add_demo_jobs, **_jobs(runs))
    found = [run for run in runs if run.found is not None]
    await database.execute(_Q.add_demo_results, **_results(found))
    await database.execute(_Q.add_demo_changes, **_changes(found, until))
    newest = {run.policy_id: run for run in found}.values()
    await database.execute(_Q.set_demo_values, **_newest(list(newest)))
    await database.execute(_Q.add_demo_minutes, first=until - _WEEK, until=until)
    await database.execute(_Q.add_demo_hours, until=until)


async def remove_figures(database: Database, until: datetime | None) -> None:
    """Deletes the made-up figures; later ones are what the installation did."""
    if until is not None:
        await database.execute(_Q.remove_demo_minutes, until=until)
        await database.execute(_Q.remove_demo_hours, until=until)


def _runs(policy_id: UUID, item: Product, until: datetime) -> list[_Run]:
    """Two a day; each product at a minute of its own."""
    first = until - _WEEK + timedelta(minutes=3 * item.number % 700)
    times = [first + n * _RUNS for n in range(int(_WEEK / _RUNS))]
    # The last one is what the shop says now, so that the first real crawl finds no jump.
    times = [*[at for at in times if at < until - timedelta(hours=1)], until - timedelta(seconds=5)]
    return [_run(policy_id, item, at) for at in times]


def _run(policy_id: UUID, item: Product, at: datetime) -> _Run:
    works = item.mood not in _ERRORS
    found = quote(item, at.timestamp()) if works else None
    return _Run(_id_at(at), _id_at(at) if works else None, policy_id, item, at, found)


def _id_at(at: datetime) -> UUID:
    """An id of version 7 that sorts where its time belongs."""
    value = int(at.timestamp() * 1000) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    return UUID(int=value & ~(0x3 << 62) | 0x2 << 62)


def _seconds(run: _Run) -> float:
    return round(0.2 + run.item.number % 17 / 10 + (4.0 if run.item.mood == "slow" else 0.0), 2)


def _jobs(runs: Sequence[_Run]) -> dict[str, list[Any]]:
    errors = [_ERRORS.get(run.item.mood, (None, None)) for run in runs]
    return {
        "job_ids": [run.job_id for run in runs],
        "policy_ids": [run.policy_id for run in runs],
        "statuses": [_status(run) for run in runs],
        "ats": [run.at for run in runs],
        "seconds": [_seconds(run) for run in runs],
        "codes": [code for code, _ in errors],
        "errors": [error for _, error in errors],
        "result_ids": [run.result_id for run in runs],
    }


def _status(run: _Run) -> str:
    if run.found is not None:
        return "done"
    return "expired" if run.item.mood == "glacial" else "failed"


def _results(runs: Sequence[_Run]) -> dict[str, list[Any]]:
    return {
        "result_ids": [run.result_id for run in runs],
        "job_ids": [run.job_id for run in runs],
        "policy_ids": [run.policy_id for run in runs],
        "bots": ["demo-bot"] * len(runs),
        "prices": [run.found.price for run in runs if run.found],
        "currencies": [run.item.currency for run in runs],
        "titles": [run.item.title for run in runs],
        "stocks": [run.found.in_stock for run in runs if run.found],
        "seconds": [_seconds(run) for run in runs],
        "ats": [run.at for run in runs],
    }


def _newest(runs: Sequence[_Run]) -> dict[str, list[Any]]:
    results = _results(runs)
    names = ("policy_ids", "prices", "currencies", "titles", "stocks", "ats", "result_ids")
    return {name: results[name] for name in names}


def _changes(runs: Sequence[_Run], until: datetime) -> dict[str, list[Any]]:
    """The price and the stock every three hours, where they changed; each belongs to the run before it."""
    rows: list[tuple[Any, ...]] = []
    by_policy: dict[UUID, list[_Run]] = {}
    for run in runs:
        by_policy.setdefault(run.policy_id, []).append(run)
    for policy_runs in by_policy.values():
        rows += _changes_of(policy_runs, until)
    rows.sort(key=lambda row: row[-1])
    names = ("policy_ids", "job_ids", "fields", "olds", "news", "ats")
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def _changes_of(runs: Sequence[_Run], until: datetime) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    known: dict[str, Any] = {}
    at = runs[0].at
    while at < until:
        run = max((run for run in runs if run.at <= at), key=lambda run: run.at)
        now = quote(run.item, at.timestamp())
        for field, value in (("price", now.price), ("in_stock", now.in_stock)):
            if known.get(field) != value:
                rows.append((run.policy_id, run.job_id, field, known.get(field), value, at))
                known[field] = value
        at = min(at + _STEP, until - timedelta(seconds=5)) if at < until - timedelta(seconds=6) else until
    return rows
