"""When a lock began, by the database's own clock."""

from typing import Any

import pytest

from opilio.contracts.policies import PolicyInput
from opilio.crawl.pull import Pull
from opilio.runtime.bootstrap import Opilio


async def test_a_lock_is_never_older_than_its_job(opilio: Opilio, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job is created after the pull's transaction has begun, and before it looks."""
    await opilio.policies.create(PolicyInput(url="https://shop.example/"))
    transact = opilio.database.transact

    async def create_meanwhile(work: Any, **options: Any) -> Any:
        async def late(session: Any) -> Any:
            monkeypatch.undo()
            await opilio.scheduler.create_due()
            return await work(session)

        return await transact(late, **options)

    monkeypatch.setattr(opilio.database, "transact", create_meanwhile)
    answer = await opilio.dispatcher.pull(Pull("bot-1", 1, ("http",), None))
    assert answer.count == 1
    (row,) = [await opilio.insights.timeline(job.job_id) for job in answer.jobs]
    assert [step.to for step in row] == ["pending", "locked"]
    assert row[0].at <= row[1].at
