"""The record of tasks: what results decide about them, for many results in one transaction."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from opilio.adapters.postgres import Database, Row, Session
from opilio.collector.config import Config
from opilio.collector.result import Result
from opilio.collector.state.postgres import sql
from opilio.collector.task import Decision, Effect, State, Task, decide
from opilio.contracts.consistency import DESCRIPTIONS

Key: TypeAlias = tuple[str, str]
_MOVES = frozenset({Effect.SETTLED, Effect.RETRIED})


class Ledger:
    def __init__(self, database: Database, config: Config) -> None:
        self._db = database
        self._config = config

    async def settle(self, results: Sequence[Result], now: datetime) -> list[Decision | None]:
        """What becomes of each result's task, in the order given; None where no such task was dispatched."""
        return await self._db.transact(lambda session: self._settle(session, results, now), hot=True)

    async def _settle(
        self, session: Session, results: Sequence[Result], now: datetime
    ) -> list[Decision | None]:
        tasks = await _locked(session, results)
        decisions: list[Decision | None] = []
        moves: dict[Key, tuple[Result, Decision]] = {}
        for result in results:
            key = (result.platform, result.job_id)
            decision = decide(tasks[key], result, self._config, now) if key in tasks else None
            decisions.append(decision)
            if decision is None:
                continue
            tasks[key] = decision.task  # the next result of the same task sees what this one did
            if decision.effect in _MOVES:
                moves[key] = (result, decision)
        if moves:
            await session.fetch(sql.move_tasks, **_columns(moves))
        await _warn(session, results, decisions)
        return decisions

    async def add_pages(self, pages: Sequence[tuple[Result, Decision]]) -> None:
        """Adds the items of further pages to their tasks."""
        if not pages:
            return
        await self._db.execute(
            sql.add_pages,
            platforms=[result.platform for result, _ in pages],
            job_ids=[result.job_id for result, _ in pages],
            attempts=[decision.task.items_attempt for _, decision in pages],
            successful=[result.successful for result, _ in pages],
            failed=[result.failed for result, _ in pages],
            skipped=[result.skipped for result, _ in pages],
        )


async def _locked(session: Session, results: Sequence[Result]) -> dict[Key, Task]:
    keys = list({(result.platform, result.job_id) for result in results})
    rows = await session.fetch(
        sql.lock_tasks, platforms=[platform for platform, _ in keys], job_ids=[job_id for _, job_id in keys]
    )
    return {(row["platform"], row["job_id"]): _task(row) for row in rows}


def _task(row: Row) -> Task:
    return Task(
        platform=row["platform"],
        job_id=row["job_id"],
        project_id=row["project_id"],
        state=State(row["state"]),
        attempt=row["attempt"],
        max_attempts=row["max_attempts"],
        ready_at=row["ready_at"],
        settled_by=row["settled_by"],
        items_attempt=row["items_attempt"],
        retried_for=row["retried_for"],
        code=row["error_code"],
        message=row["error_message"],
    )


def _columns(moves: Mapping[Key, tuple[Result, Decision]]) -> dict[str, list[Any]]:
    results = [result for result, _ in moves.values()]
    tasks = [decision.task for _, decision in moves.values()]
    return {
        "platforms": [task.platform for task in tasks],
        "job_ids": [task.job_id for task in tasks],
        "states": [task.state.value for task in tasks],
        "attempts": [task.attempt for task in tasks],
        "ready_at": [task.ready_at for task in tasks],
        "settled_by": [task.settled_by for task in tasks],
        "items_attempts": [task.items_attempt for task in tasks],
        "retried_for": [task.retried_for for task in tasks],
        "error_codes": [task.code for task in tasks],
        "error_messages": [task.message for task in tasks],
        "retried": [decision.effect is Effect.RETRIED for _, decision in moves.values()],
        "successful": [result.successful for result in results],
        "failed": [result.failed for result in results],
        "skipped": [result.skipped for result in results],
        "total_found": [result.total_found for result in results],
        "platform_limited": [result.platform_limited for result in results],
    }


async def _warn(session: Session, results: Sequence[Result], decisions: Sequence[Decision | None]) -> None:
    """Keeps what a person should know: little on the platform, rules of the contract broken."""
    warnings = [
        (decision.task.project_id, result.platform, result.job_id, kind, message)
        for result, decision in zip(results, decisions, strict=True)
        if decision is not None and decision.task.project_id is not None
        for kind, message in _warnings(result)
    ]
    if not warnings:
        return
    project_ids, platforms, job_ids, kinds, messages = (
        list(column) for column in zip(*warnings, strict=True)
    )
    await session.execute(
        sql.warn,
        project_ids=project_ids,
        platforms=platforms,
        job_ids=job_ids,
        kinds=kinds,
        messages=messages,
    )


def _warnings(result: Result) -> list[tuple[str, str]]:
    told = [(f"contract:{rule}", DESCRIPTIONS[rule]) for rule in result.violations]
    if result.platform_limited:
        asked = "" if result.requested_limit is None else f" of the {result.requested_limit} asked for"
        told.append(("platform_limited", f"the platform has only {result.total_found}{asked}"))
    return told
