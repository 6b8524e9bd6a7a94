"""When a lock began, by the database's own clock."""

from typing import Any

import pytest

from opilio.clock import Clock
from opilio.contracts.policies import PolicyInput
from opilio.crawl import pull
from opilio.crawl.pull import Pull
from opilio.runtime.bootstrap import Opilio


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def test_a_lock_is_never_older_than_its_job(opilio: Opilio, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job is created after the transaction that locks it has begun, and before it looks."""
    await opilio.policies.create(PolicyInput(url="https://shop.example/"))
    lock_jobs = pull.lock_jobs

    async def create_first(session: Any, *request: Any) -> Any:
        await opilio.scheduler.create_due()
        return await lock_jobs(session, *request)

    monkeypatch.setattr(pull, "lock_jobs", create_first)
    answer = await opilio.dispatcher.pull(Pull("bot-1", 1, ("http",), None))
    assert answer.count == 1
    async with opilio.database.session() as session:
        job = await session.connection.fetchrow("select created_at, locked_at from job_active")
    assert job["created_at"] <= job["locked_at"]
