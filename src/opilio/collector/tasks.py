"""Task rows and their results: read under a lock, written after the decision."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from opilio.adapters.postgres import Row, Session
from opilio.collector.result import Result
from opilio.collector.sql import queries as sql
from opilio.collector.task import Decision, Effect, Recorded, ResultKey, State, Task
from opilio.contracts.consistency import DESCRIPTIONS

Key: TypeAlias = tuple[str, str]  # platform and job id
Warning_: TypeAlias = tuple[str, str, str, str, str]  # project, platform, job id, kind, message


async def lock_tasks(session: Session, keys: Sequence[Key]) -> dict[Key, Task]:
    rows = await session.fetch(sql.lock_tasks, **_columns(keys))
    return {(row["platform"], row["job_id"]): _task(row) for row in rows}


async def read_results(session: Session, keys: Sequence[Key]) -> dict[Key, dict[ResultKey, Recorded]]:
    """The results received before, by task, attempt and cursor."""
    found: dict[Key, dict[ResultKey, Recorded]] = {key: {} for key in keys}
    for row in await session.fetch(sql.results_of_tasks, **_columns(keys)):
        fields = dict(row)
        key = (fields.pop("platform"), fields.pop("job_id"))
        one = Recorded(**{**fields, "digests": tuple(fields["digests"])})
        found[key][one.key] = one
    return found


async def store_tasks(session: Session, changed: Mapping[Key, tuple[Result, Decision]]) -> None:
    """Stores the last decision of each task."""
    if changed:
        await session.fetch(sql.update_tasks, **_task_columns(changed))
        await session.fetch(sql.notify_senders)


async def store_results(session: Session, recorded: Mapping[Key, Mapping[ResultKey, Recorded]]) -> None:
    rows = [
        {"platform": platform, "job_id": job_id, **_fields(one)}
        for (platform, job_id), results in recorded.items()
        for one in results.values()
    ]
    if rows:
        await session.execute(sql.store_results, results=msgspec.Raw(msgspec.json.encode(rows)))


async def store_warnings(session: Session, warnings: Sequence[Warning_]) -> None:
    if not warnings:
        return
    columns = [list(column) for column in zip(*warnings, strict=True)]
    names = ("project_ids", "platforms", "job_ids", "kinds", "messages")
    await session.execute(sql.add_warnings, **dict(zip(names, columns, strict=True)))


def warnings_of(result: Result, decision: Decision) -> list[Warning_]:
    """What a person should know: the platform has few items, a rule is broken, a result came too late."""
    task = decision.task
    if task.project_id is None:
        return []
    found = [(f"contract:{rule}", DESCRIPTIONS[rule]) for rule in result.violations]
    if result.platform_limited:
        requested = "" if result.requested_limit is None else f" of the {result.requested_limit} requested"
        found.append(("platform_limited", f"the platform has only {result.total_found}{requested}"))
    if decision.effect is Effect.LATE and result.items:
        found.append(
            ("late_result", f"a result with {result.successful} items came too late and is not counted")
        )
    return [(task.project_id, task.platform, task.job_id, kind, message) for kind, message in found]


def _columns(keys: Sequence[Key]) -> dict[str, list[str]]:
    return {"platforms": [platform for platform, _ in keys], "job_ids": [job_id for _, job_id in keys]}


def _task(row: Row) -> Task:
    return Task(
        platform=row["platform"],
        job_id=row["job_id"],
        project_id=row["project_id"],
        state=State(row["state"]),
        attempt=row["attempt"],
        max_attempts=row["max_attempts"],
        ready_at=row["ready_at"],
        items_attempt=row["items_attempt"],
        crawl_id=row["crawl_id"],
        code=row["error_code"],
        message=row["error_message"],
        successful=row["successful"],
        failed=row["failed"],
        skipped=row["skipped"],
    )


def _task_columns(changed: Mapping[Key, tuple[Result, Decision]]) -> dict[str, list[Any]]:
    results = [result for result, _ in changed.values()]
    tasks = [decision.task for _, decision in changed.values()]
    return {
        "platforms": [task.platform for task in tasks],
        "job_ids": [task.job_id for task in tasks],
        "states": [task.state.value for task in tasks],
        "attempts": [task.attempt for task in tasks],
        "ready_at": [task.ready_at for task in tasks],
        "items_attempts": [task.items_attempt for task in tasks],
        "crawl_ids": [task.crawl_id for task in tasks],
        "error_codes": [task.code for task in tasks],
        "error_messages": [task.message for task in tasks],
        "retried": [decision.effect is Effect.RETRIED for _, decision in changed.values()],
        "successful": [task.successful for task in tasks],
        "failed": [task.failed for task in tasks],
        "skipped": [task.skipped for task in tasks],
        "total_found": [result.total_found for result in results],
        "platform_limited": [result.platform_limited for result in results],
    }


def _fields(one: Recorded) -> dict[str, Any]:
    return {name: getattr(one, name) for name in Recorded.__dataclass_fields__}
