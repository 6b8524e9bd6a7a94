"""A submit of a job that this process locked reads nothing, unless something has happened since."""

import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest

from opilio.adapters.postgres import Session, Statement
from opilio.clock import FixedClock
from opilio.contracts.alerts import AlertInput, AlertScope
from opilio.contracts.bot_api import PulledJob
from opilio.contracts.events import VALUE_ALERT
from opilio.contracts.policies import PolicyPatch
from opilio.crawl import known_locks, submit
from opilio.crawl.claims import check_claims
from opilio.crawl.known_locks import KnownLocks
from opilio.crawl.politeness import Limits
from opilio.lock_rules import Claim
from tests.crawl.farm import Farm, FarmMaker, refused, said


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many claims each reading was about."""
    found: list[int] = []

    async def check(session: Any, claims: Any, now: Any, *, lock: bool) -> Any:
        found.append(len(claims))
        return await check_claims(session, claims, now, lock=lock)

    monkeypatch.setattr(submit, "check_claims", check)
    return found


@pytest.fixture
def other(farm_with: FarmMaker) -> Farm:
    """Another process on the same database."""
    return farm_with()


async def test_it_works(farm: Farm, reads: list[int]) -> None:
    await farm.policies(3)
    await farm.due()
    jobs = await farm.pull(most=3)
    answers = await farm.opilio.submitter.submit([farm.sent(job) for job in jobs])
    assert [said(answer)["status"] for answer in answers] == ["done"] * 3
    assert reads == []
    assert await farm.walk(jobs[0].job_id) == ["pending", "locked", "done"]


async def test_a_repeated_submit_is_read_and_answered_again(farm: Farm, reads: list[int]) -> None:
    job = await farm.one()
    first = said(await farm.submit(job))
    assert said(await farm.submit(job)) == first
    assert reads == [1]
    assert await farm.value("select count(*) from job_archive") == 1


async def test_a_result_may_come_to_another_process(farm: Farm, other: Farm, reads: list[int]) -> None:
    job = await farm.one()
    assert said(await other.submit(job))["status"] == "done"
    assert reads == [1]
    assert refused(await farm.submit(job, price=5)) == "invalid_state"


async def test_a_batch_reads_only_what_is_not_known(farm: Farm, other: Farm, reads: list[int]) -> None:
    await farm.policies(4)
    await farm.due()
    own, failed = await farm.pull(most=2)
    others = await other.pull(most=2)
    batch = [farm.sent(others[0]), farm.sent(own), farm.sent(failed, success=False), farm.sent(others[1])]
    answers = await farm.opilio.submitter.submit(batch)
    assert [said(answer)["status"] for answer in answers] == ["done", "done", "pending", "done"]
    assert reads == [3]


@pytest.mark.parametrize("wrong", [{"lock_token": str(uuid4())}, {"bot": "bot-2"}])
async def test_a_claim_that_is_not_the_locks_is_refused(
    farm: Farm, reads: list[int], wrong: dict[str, str]
) -> None:
    job = await farm.one()
    assert refused(await farm.submit(job, **wrong)) == "not_assigned"
    assert reads == [1]


async def test_a_lock_that_has_passed_is_late(farm: Farm, reads: list[int]) -> None:
    job = await farm.one(timeout_minutes=1)
    farm.later(minutes=2)
    assert refused(await farm.submit(job)) == "lock_expired"
    assert reads == [1]


# ── what can happen between the pull and the submit; each answers a check of what must come of it ──

Check = Callable[[dict[str, Any]], Awaitable[None]]


async def extended(farm: Farm, other: Farm, job: PulledJob) -> Check:
    await other.beat(job)

    async def check(answer: dict[str, Any]) -> None:
        assert answer["status"] == "done"

    return check


async def another_frequency(farm: Farm, other: Farm, job: PulledJob) -> Check:
    policy_id = await farm.value("select policy_id from policy")
    await other.opilio.policies.change(policy_id, PolicyPatch(frequency_hours=2))

    async def check(answer: dict[str, Any]) -> None:
        assert datetime.fromisoformat(answer["policy_next_run"]) == farm.clock.at + timedelta(hours=2)

    return check


async def another_url(farm: Farm, other: Farm, job: PulledJob) -> Check:
    policy_id = await farm.value("select policy_id from policy")
    await other.opilio.policies.change(policy_id, PolicyPatch(url="https://shop.example/new"))

    async def check(answer: dict[str, Any]) -> None:
        assert await farm.value("select subject from job_archive") == "https://shop.example/new"

    return check


async def deleted(farm: Farm, other: Farm, job: PulledJob) -> Check:
    await other.opilio.policies.delete([await farm.value("select policy_id from policy")])

    async def check(answer: dict[str, Any]) -> None:
        assert await farm.value("select place from crawl_state") is None

    return check


async def adaptive(farm: Farm, other: Farm, job: PulledJob) -> Check:
    await other.opilio.policies.set_schedule([await farm.value("select policy_id from policy")], "adaptive")

    async def check(answer: dict[str, Any]) -> None:
        assert await farm.value("select due_pool from crawl_state") == ""

    return check


async def struck(farm: Farm, other: Farm, job: PulledJob) -> Check:
    await farm.rows("update host set strikes = 2")

    async def check(answer: dict[str, Any]) -> None:
        assert await farm.value("select strikes from host") == 0, "a success forgives"

    return check


async def gated(farm: Farm, other: Farm, job: PulledJob) -> Check:
    """Another job waits behind a gate that opens when this lock ends."""
    await other.opilio.hosts.set_limits("shop.example", Limits(1, None))
    await farm.policy(url="https://shop.example/second")
    await farm.due()
    assert await other.pull("bot-2") == []

    async def check(answer: dict[str, Any]) -> None:
        assert len(await other.pull("bot-2")) == 1

    return check


async def alert(farm: Farm, other: Farm, job: PulledJob) -> Check:
    await add_alert(other)

    async def check(answer: dict[str, Any]) -> None:
        assert await fired(farm) == 1

    return check


async def rewritten(farm: Farm, other: Farm, job: PulledJob) -> Check:
    await farm.rows("vacuum full crawl_state")

    async def check(answer: dict[str, Any]) -> None:
        assert await farm.value("select count(*) from job_archive") == 1

    return check


async def add_alert(farm: Farm) -> None:
    scope, value = AlertScope(all=True), Decimal(1)
    wanted = AlertInput(name="any price", scope=scope, field="price", when="above", value=value)
    await farm.opilio.alerts.create(wanted, "operator:admin")


async def fired(farm: Farm) -> int:
    return int(await farm.value("select count(*) from event_source where type = $1", VALUE_ALERT))


MEANWHILE = [extended, another_frequency, another_url, deleted, adaptive, struck, gated, alert, rewritten]


@pytest.mark.parametrize("happens", MEANWHILE, ids=lambda happens: happens.__name__)
async def test_what_happened_meanwhile_counts(
    farm: Farm, other: Farm, reads: list[int], happens: Callable[..., Awaitable[Any]]
) -> None:
    job = await farm.one()
    check = await happens(farm, other, job)
    answer = said(await farm.submit(job))
    assert answer["status"] == "done"
    assert reads == [1], "tried as known, then read"
    await check(answer)


async def test_a_job_that_was_given_back_is_not_ended(farm: Farm, other: Farm, reads: list[int]) -> None:
    job = await farm.one()
    await other.release(job)
    assert refused(await farm.submit(job)) == "invalid_state"
    assert reads == [1]


@pytest.mark.parametrize(("same_process", "tries"), [(True, 1), (False, 2)])
async def test_a_heartbeat_to_the_same_process_costs_no_second_try(
    farm: Farm, other: Farm, monkeypatch: pytest.MonkeyPatch, same_process: bool, tries: int
) -> None:
    job = await farm.one()
    farm.later(seconds=5)
    await (farm if same_process else other).beat(job)
    ran: list[str] = []
    execute = Session.execute

    async def noted(session: Session, statement: Statement, **params: Any) -> int:
        ran.append(statement.name.split()[0])
        return await execute(session, statement, **params)

    monkeypatch.setattr(Session, "execute", noted)
    assert said(await farm.submit(job))["status"] == "done"
    assert ran.count("finish_jobs") == tries


async def test_jobs_behind_gates_are_read(farm: Farm, reads: list[int]) -> None:
    """Their host has limits, so something is to be done at the end of each."""
    await farm.policy()
    await farm.opilio.hosts.set_limits("shop.example", Limits(1, None))
    await farm.due()
    (job,) = await farm.pull()
    assert said(await farm.submit(job))["status"] == "done"
    assert reads == [1]


async def test_alerts_fire_for_known_jobs(farm: Farm, reads: list[int]) -> None:
    await add_alert(farm)
    await farm.submit(await farm.one())
    assert reads == []
    assert await fired(farm) == 1


async def test_of_an_adaptive_policy_the_first_job_is_read_and_the_next_is_known(
    farm: Farm, reads: list[int]
) -> None:
    await farm.policies(2, schedule="adaptive")
    await farm.due()
    for expected in ([1], [1]):
        (job,) = await farm.pull(most=1)
        assert said(await farm.submit(job))["status"] == "done"
        assert reads == expected
    assert await farm.value("select count(*) from crawl_state where due_pool = ''") == 2


async def test_a_batch_may_have_both_schedules(farm: Farm, reads: list[int]) -> None:
    await farm.policies(2, host="fixed.example")
    await farm.policies(2, host="adaptive.example", schedule="adaptive")
    await farm.due()
    jobs = await farm.pull(most=4)
    answers = await farm.opilio.submitter.submit([farm.sent(job) for job in jobs])
    assert [said(answer)["status"] for answer in answers] == ["done"] * 4
    assert reads == [2]
    pools = await farm.rows("select s.due_pool, p.pool from crawl_state s join policy p using (policy_id)")
    assert sorted(row["due_pool"] is None for row in pools) == [False, False, True, True]
    assert all(row["due_pool"] == row["pool"] for row in pools)


def _row(number: int, at: datetime) -> Any:
    claim = Claim("bot", uuid4(), uuid4(), b"")
    row = {"job_id": claim.job_id, "locked_by": "bot", "lock_token": claim.lock_token, "pool": None}
    return claim, row | {"locked_until": at + timedelta(minutes=number), "lock_ttl_seconds": number * 60}


def test_only_so_many_are_known() -> None:
    at = datetime.now(UTC)
    claims, rows = zip(*(_row(n, at) for n in range(1, 6)), strict=True)
    known = KnownLocks(FixedClock(at), most=3)
    known.keep(rows[:2])
    known.keep(rows[2:])
    assert known.take(claims, at) == [None, None, *rows[2:]]
    assert known.take(claims, at) == [None] * 5, "each is used once"


def test_the_time_is_the_databases(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: passed)
    at = datetime(2001, 1, 1, tzinfo=UTC)
    known = KnownLocks()
    assert known.now() is None
    known.keep([_row(1, at)[1]])
    passed += 2
    assert known.now() == at + timedelta(seconds=2)
    known.keep([_row(1, at + timedelta(seconds=1.9))[1]])
    assert known.now() == at + timedelta(seconds=2), "an answer was overtaken"
    known.keep([_row(1, at - timedelta(hours=1))[1]])
    assert known.now() == at - timedelta(hours=1), "the clock was set"
    passed += known_locks._CLOCK_SECONDS + 1
    assert known.now() is None, "a pull tells it again"
