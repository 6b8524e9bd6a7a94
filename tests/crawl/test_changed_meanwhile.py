"""Somebody changes a job between the moment in which a submit reads it and the moment in which it writes."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from opilio.crawl import submit
from opilio.crawl.claims import check_claims
from tests.crawl.farm import Farm, FarmMaker, refused, said

Between = Callable[[Callable[[], Awaitable[Any]]], list[bool]]


@pytest.fixture
async def farm(farm_with: FarmMaker) -> AsyncIterator[Farm]:
    """Jobs are pulled from another process, so that a submit has to read them."""
    farm = farm_with()
    farm.opilio = replace(farm.opilio, puller=farm_with().opilio.puller)
    yield farm
    await farm.audit()


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Between:
    """Lets something happen after the first reading; answers for each reading whether it locked."""

    def arrange(happens: Callable[[], Awaitable[Any]]) -> list[bool]:
        locked: list[bool] = []

        async def check(session: Any, claims: Any, now: Any, *, lock: bool) -> Any:
            checked = await check_claims(session, claims, now, lock=lock)
            locked.append(lock)
            if len(locked) == 1:
                await happens()
            return checked

        monkeypatch.setattr(submit, "check_claims", check)
        return locked

    return arrange


async def test_nobody_waits_where_nobody_interferes(farm: Farm, between: Between) -> None:
    async def nothing() -> None:
        return None

    job = await farm.one()
    locked = between(nothing)
    assert said(await farm.submit(job))["status"] == "done"
    assert locked == [False]


@pytest.mark.parametrize("success", [True, False])
async def test_a_heartbeat_changes_nothing(farm: Farm, between: Between, success: bool) -> None:
    job = await farm.one()
    farm.later(seconds=5)
    locked = between(lambda: farm.beat(job))
    answer = said(await farm.submit(job, success=success))
    assert answer["status"] == ("done" if success else "pending")
    assert locked == [False, True]
    assert await farm.walk(job.job_id) == ["pending", "locked", answer["status"]]
    await farm.audit()


@pytest.mark.parametrize("success", [True, False])
async def test_a_job_that_was_given_back_is_not_ended(farm: Farm, between: Between, success: bool) -> None:
    job = await farm.one()
    between(lambda: farm.release(job))
    assert refused(await farm.submit(job, success=success)) == "invalid_state"
    assert await farm.value("select count(*) from job_archive") == 0
    assert await farm.value("select count(*) from event_source") == 0
    assert await farm.walk(job.job_id) == ["pending", "locked", "pending"]
    await farm.audit()


async def test_the_same_result_from_another_process_is_stored_once(farm: Farm, between: Between) -> None:
    job = await farm.one()
    sent = farm.sent(job)
    first: list[Any] = []

    async def other_process() -> None:
        first.extend(await farm.opilio.submitter.submit([sent]))

    between(other_process)
    (answer,) = await farm.opilio.submitter.submit([sent])
    assert said(answer) == said(first[0])
    assert await farm.value("select count(*) from job_archive") == 1
    await farm.audit()


async def test_the_others_of_a_batch_end_with_it(farm: Farm, between: Between) -> None:
    await farm.policies(3)
    await farm.due()
    jobs = await farm.pull(most=3)
    between(lambda: farm.release(jobs[1]))
    answers = await farm.opilio.submitter.submit([farm.sent(job) for job in jobs])
    assert [answer.refusal is None for answer in answers] == [True, False, True]
    assert await farm.value("select count(*) from job_archive") == 2
    await farm.audit()


async def test_a_table_that_was_rewritten_meanwhile_misleads_nobody(farm: Farm, between: Between) -> None:
    """Rows have moved, and where one of them lay there is another that the same transaction locked."""
    await farm.policies(2)
    await farm.due()
    jobs = {job.job_id: job for job in await farm.pull(most=2)}
    await farm.rows("vacuum crawl_state")
    await farm.policies(3, host="other.example")  # take the places of all old versions but one
    places = "select ctid, xmin, job_id from crawl_state where place = 'locked' order by ctid"
    before = await farm.rows(places)
    first, second = before[:2]

    locked = between(lambda: farm.rows("vacuum full crawl_state"))
    assert said(await farm.submit(jobs[first["job_id"]], price=5))["status"] == "done"
    after = {row["job_id"]: (row["ctid"], row["xmin"]) for row in await farm.rows(places)}
    assert after[second["job_id"]] == (first["ctid"], first["xmin"]), "the case that is meant"
    assert locked == [False, True]
    assert list(after) == [second["job_id"]]
