"""What must hold in the end: nothing lost, nothing doubled, memory flat."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from statistics import mean
from typing import Any

from opilio.adapters.postgres import Database
from opilio.collector.collector import open_projects
from opilio.collector.config import Config
from tests.delivery.receiver import Got
from tests.soak.load import Work
from tests.soak.system import System

JOBS = (Path(__file__).parents[1] / "crawl" / "audit.sql").read_text()
EVENTS = """select event_id::text as id, convert_from(body, 'UTF8') as body from event_log where type like 'crawl.job.%'"""
WAITING = """select (select count(*) from outbox) + (select count(*) from event_waiting) + (select count(*) from webhook_delivery where state = 'pending')
  + (select count(*) from bus_message) as n"""
PROJECTS = """select project_id from project where status <> 'DONE'"""
FIGURES = """
select t.project_id, sum(t.successful) as items,
  (select sum(b.success_count + b.error_count) from batch_result b where b.project_id = t.project_id and b.counted) as analysed
from task t where t.project_id is not null group by 1"""
_PATIENCE = 1800.0  # the audit looks at every step of every job
# Growth is judged where there is enough to compare, and above what a busy process takes now and then.
_ENOUGH_SAMPLES, _MOST_GROWTH = 20, 1.25


async def settled(system: System, seconds: float) -> list[str]:
    """Waits until nothing is under way any more; answers what still is."""
    database = await Database.connect(system.database_url, size=2, hot_size=1, name="soak")
    left: list[str] = ["not asked yet"]
    try:
        try:
            async with asyncio.timeout(seconds):
                while left:
                    left = await _left(database)
                    await asyncio.sleep(1)
        except TimeoutError:
            return left
    finally:
        await database.close()
    return []


async def _left(database: Database) -> list[str]:
    async with database.session() as session:
        waiting = await session.connection.fetchval(WAITING)
        projects = [row["project_id"] for row in await session.connection.fetch(PROJECTS)]
    return [
        *([f"{waiting} messages or deliveries wait"] if waiting else []),
        *(f"{p} is not done" for p in projects),
    ]


async def faults_of(system: System, work: Work, got: list[Got]) -> list[str]:
    database = await Database.connect(system.database_url, size=4, hot_size=1, name="soak")
    try:
        async with database.session() as session:
            jobs = [
                f"{row['fault']}: {row['subject']}"
                for row in await session.connection.fetch(JOBS, timeout=_PATIENCE)
            ]
            events = await session.connection.fetch(EVENTS)
            results = await session.connection.fetch(
                "select job_id::text, result_id::text from stored_result"
            )
            figures = await session.connection.fetch(FIGURES)
        projects = open_projects(database, Config(), system.redis.url)
        try:
            differences = await projects.reconcile()
            wrong = [
                f"project {one.project_id}: {one.field} was {one.was}, is {one.now}" for one in differences
            ]
            for row in figures:
                state = await projects.state(row["project_id"])
                counted = (state.items_actual, state.analyze_done + state.analyze_errors)
                if counted != (row["items"], row["analysed"] or 0):
                    wrong.append(f"project {row['project_id']}: counted {counted}, stored {dict(row)}")
        finally:
            await projects.close()
    finally:
        await database.close()
    return [
        *jobs,
        *wrong,
        *_answers_taken_back(work, results),
        *webhook_faults(events, got),
        *work.wrong[:20],
    ]


def _answers_taken_back(work: Work, results: list[Any]) -> list[str]:
    stored = {row["job_id"]: row["result_id"] for row in results}
    return [
        f"the answer of job {job_id} was taken back"
        for job_id, result_id in work.done.items()
        if stored.get(job_id) != result_id
    ]


def webhook_faults(events: list[Any], got: list[Got]) -> list[str]:
    """Every event arrived, nothing else did, and every copy of it is the same."""
    expected = {row["id"]: json.loads(row["body"]) for row in events}
    arrived = {one.id for one in got}
    found = [f"event {missing} did not arrive" for missing in sorted(expected.keys() - arrived)]
    found += [f"webhook {unknown} is no event" for unknown in sorted(arrived - expected.keys())]
    found += [
        f"webhook {one.id} differs from its event"
        for one in got
        if one.id in expected and json.loads(one.body) != expected[one.id]
    ]
    return found[:20]


def memory_faults(memory: dict[str, list[float]]) -> list[str]:
    """A role whose processes take clearly more in the second half than in the first leaks."""
    return [
        f"{name} grew from {before:.0f} to {after:.0f} MiB"
        for name, (before, after) in memory_by_role(memory).items()
        if after > before * _MOST_GROWTH
    ]


def memory_by_role(memory: dict[str, list[float]]) -> dict[str, tuple[float, float]]:
    """MiB in the first and in the second half of the samples, on average."""
    return {
        name: (mean(samples[: len(samples) // 2]), mean(samples[len(samples) // 2 :]))
        for name, samples in memory.items()
        if len(samples) >= _ENOUGH_SAMPLES
    }


def repeated(got: list[Got]) -> int:
    return sum(count - 1 for count in Counter(one.id for one in got).values())
