"""What happened to a job, when, by whom and why."""

from uuid import uuid4

import pytest

from opilio.errors import NotFound
from tests.crawl.farm import Farm


async def test_it_works(farm: Farm) -> None:
    start = farm.clock.at
    job = await farm.one("bot-1")
    farm.later(seconds=10)
    await farm.fail(job, error_code="TIMEOUT", error_msg="30 s")
    farm.later(minutes=5)
    (job,) = await farm.pull("bot-2")
    farm.later(seconds=700)
    await farm.opilio.lock_expiry.run_once()
    farm.later(minutes=10)
    (job,) = await farm.pull("bot-3")
    farm.later(seconds=3)
    await farm.submit(job, "bot-3")
    told = await farm.opilio.insights.timeline(job.job_id)
    assert [(row.from_, row.to, row.by) for row in told] == [
        (None, "pending", "scheduler"),
        ("pending", "locked", "bot:bot-1"),
        ("locked", "pending", "bot:bot-1"),
        ("pending", "locked", "bot:bot-2"),
        ("locked", "expired", "sweeper"),
        ("expired", "pending", "sweeper"),
        ("pending", "locked", "bot:bot-3"),
        ("locked", "done", "bot:bot-3"),
    ]
    assert [row.reason for row in told] == [
        "created", "pulled", "TIMEOUT: 30 s", "pulled", "the lock expired after 600 s (bot-2)", "retry 2 of 3", "pulled",
        "result accepted",
    ]  # fmt: skip
    assert [int((row.at - start).total_seconds()) for row in told] == [0, 0, 10, 310, 1010, 1010, 1610, 1613]


async def test_no_such_job(farm: Farm) -> None:
    with pytest.raises(NotFound) as refusal:
        await farm.opilio.insights.timeline(uuid4())
    assert refusal.value.code == "job_not_found"
