"""A bot submits what it found."""

import asyncio
from datetime import timedelta
from decimal import Decimal
from uuid import UUID, uuid4

import msgspec

from opilio.contracts.bot_api import PulledJob
from opilio.contracts.policies import PolicyPatch
from tests.crawl.farm import Farm, refused, said


async def test_it_works(farm: Farm) -> None:
    job = await farm.one(frequency_hours=6)
    answer = said(
        await farm.submit(job, price=19.99, currency="usd", title="Lamp", in_stock=True, crawl_duration=1.5)
    )
    assert answer["status"] == "done"
    assert answer["job_id"] == str(job.job_id)
    assert (answer["price"], answer["currency"]) == (19.99, "USD")
    assert answer["policy_next_run"] == (farm.clock.at + timedelta(hours=6)).isoformat().replace(
        "+00:00", "Z"
    )
    (row,) = await farm.rows("select * from crawl_result")
    assert str(row["id"]) == answer["result_id"]
    assert (row["price"], row["title"], row["in_stock"]) == (Decimal("19.99"), "Lamp", True)


async def test_all_in_one_transaction(farm: Farm) -> None:
    job = await farm.one()
    await farm.submit(job)
    (policy,) = await farm.rows("select * from crawl_policy")
    assert policy["last_success_at"] == farm.clock.at
    assert policy["failure_count"] == 0
    assert (await farm.opilio.insights.job(job.job_id)).status == "done"
    (event,) = await farm.rows("select * from event_log")
    assert (event["type"], event["subject"]) == ("crawl.job.completed", job.url)
    assert event["data"]["changed"] == ["price", "currency"]
    assert await farm.walk(job.job_id) == ["pending", "locked", "done"]


async def test_a_failure_is_tried_again(farm: Farm) -> None:
    job = await farm.one()
    answer = said(await farm.fail(job, error_msg="no route", error_code="NETWORK_ERROR"))
    assert answer["status"] == "pending"
    assert (answer["retry_count"], answer["max_retries"]) == (1, 3)
    shown = await farm.opilio.insights.job(job.job_id)
    assert (shown.status, shown.priority, shown.retry_count) == ("pending", 45, 1)
    assert (shown.last_error, shown.last_error_code) == ("no route", "NETWORK_ERROR")
    assert shown.run_at == farm.clock.at + timedelta(minutes=5)
    assert await farm.value("select count(*) from event_log") == 0


async def test_the_last_failure_ends_the_job(farm: Farm) -> None:
    job = await farm.one(max_retries=1)
    await farm.fail(job)
    farm.later(minutes=5)
    (job,) = await farm.pull()
    answer = said(await farm.fail(job, error_msg="still no route"))
    assert answer["status"] == "failed"
    assert answer["message"] == "no retries are left"
    (policy,) = await farm.rows("select * from crawl_policy")
    assert policy["failure_count"] == 1
    assert policy["next_run_at"] == farm.clock.at + timedelta(minutes=5)
    (event,) = await farm.rows("select * from event_log")
    assert (event["type"], event["data"]["reason"]) == ("crawl.job.failed", "failed")
    assert await farm.walk(job.job_id) == ["pending", "locked", "pending", "locked", "failed"]


async def test_a_hopeless_code_ends_the_job_at_once(farm: Farm) -> None:
    job = await farm.one()
    answer = said(await farm.fail(job, error_code="CONTENT_REMOVED"))
    assert answer["status"] == "failed"
    assert answer["message"] == "CONTENT_REMOVED is not worth a retry"
    assert answer["retry_count"] == 0


async def test_a_policy_backs_off_and_recovers(farm: Farm) -> None:
    await farm.policy(max_retries=0, frequency_hours=1)
    waits = []
    for _ in range(6):
        assert await farm.due() == 1
        (job,) = await farm.pull()
        await farm.fail(job)
        due = await farm.value("select next_run_at from policy_state")
        waits.append((due - farm.clock.at).total_seconds() / 60)
        farm.clock.at = due
    assert waits == [5, 10, 20, 40, 60, 60]
    await farm.due()
    (job,) = await farm.pull()
    await farm.submit(job)
    assert await farm.value("select failure_count from policy_state") == 0


async def test_no_such_job(farm: Farm) -> None:
    job = await farm.one()
    stranger = msgspec.structs.replace(job, job_id=uuid4())
    assert refused(await farm.submit(stranger)) == "job_not_found"


async def test_another_bots_job(farm: Farm) -> None:
    job = await farm.one("bot-1")
    assert refused(await farm.submit(job, "bot-2")) == "not_assigned"
    assert refused(await farm.submit(job, "bot-2", token=False)) == "not_assigned"
    assert said(await farm.submit(job, "bot-1"))["status"] == "done"


async def test_a_job_without_a_lock(farm: Farm) -> None:
    job = await farm.one()
    await farm.release(job)
    assert refused(await farm.submit(job, "bot-2")) == "not_assigned"


async def test_without_a_token_the_bot_is_enough(farm: Farm) -> None:
    job = await farm.one()
    assert said(await farm.submit(job, token=False))["status"] == "done"


async def test_after_the_ttl(farm: Farm) -> None:
    job = await farm.one()
    farm.later(seconds=600)
    assert refused(await farm.submit(job)) == "lock_expired"
    assert await farm.value("select count(*) from stored_result") == 0


async def test_after_the_sweeper(farm: Farm) -> None:
    job = await farm.one()
    farm.later(seconds=601)
    await farm.opilio.lock_expiry.run_once()
    assert refused(await farm.submit(job)) == "lock_expired"


async def test_a_late_result_is_kept_aside(farm: Farm) -> None:
    job = await farm.one()
    farm.later(seconds=601)
    for _ in range(3):
        assert refused(await farm.submit(job, price=5.55, raw_html="<p>")) == "lock_expired"
    (late,) = await farm.opilio.insights.late(job.job_id)
    assert (late.bot_id, late.lock_token) == ("bot-1", job.lock_token)
    assert late.submission["price"] == Decimal("5.55")
    assert late.submission["raw_html"] == "<p>"


async def test_a_late_result_never_overwrites_a_newer_holder(farm: Farm) -> None:
    old = await farm.one("bot-1")
    farm.later(seconds=601)
    await farm.opilio.lock_expiry.run_once()
    farm.later(minutes=5)
    (new,) = await farm.pull("bot-2")
    assert refused(await farm.submit(old, "bot-1", price=1)) == "lock_expired"
    assert said(await farm.submit(new, "bot-2", price=2))["status"] == "done"
    assert refused(await farm.submit(old, "bot-1", price=1)) == "lock_expired"
    assert await farm.value("select price from stored_result") == 2


async def test_the_same_bot_with_an_older_token(farm: Farm) -> None:
    old = await farm.one("bot-1")
    farm.later(seconds=601)
    await farm.opilio.lock_expiry.run_once()
    farm.later(minutes=5)
    (new,) = await farm.pull("bot-1")
    assert refused(await farm.submit(old, "bot-1", price=1)) == "lock_expired"
    assert said(await farm.submit(new, "bot-1", price=2))["price"] == 2


async def test_the_same_again_gets_the_same_answer(farm: Farm) -> None:
    job = await farm.one()
    first = await farm.submit(job)
    farm.later(days=2)
    assert said(await farm.submit(job)) == said(first)
    assert said(await farm.submit(job, token=False)) == said(first)
    assert await farm.value("select count(*) from stored_result") == 1
    assert await farm.value("select count(*) from event_log") == 1


async def test_the_same_failure_again_gets_the_same_answer(farm: Farm) -> None:
    job = await farm.one()
    first = said(await farm.fail(job, error_msg="x"))
    assert said(await farm.fail(job, error_msg="x")) == first
    farm.later(minutes=5)
    (again,) = await farm.pull("bot-2")
    assert said(await farm.fail(job, error_msg="x")) == first, "also when another bot has it by now"
    assert said(await farm.submit(again, "bot-2"))["status"] == "done"
    assert said(await farm.fail(job, error_msg="x")) == first, "also when it is done by now"


async def test_another_body_for_a_finished_job(farm: Farm) -> None:
    job = await farm.one()
    await farm.submit(job, price=1)
    assert refused(await farm.submit(job, price=2)) == "invalid_state"
    assert refused(await farm.fail(job)) == "invalid_state"
    assert await farm.value("select price from stored_result") == 1


async def test_a_batch_is_answered_item_by_item(farm: Farm) -> None:
    await farm.policies(3)
    await farm.due()
    one, two, three = await farm.pull()
    stranger = msgspec.structs.replace(one, job_id=uuid4())
    answers = await farm.opilio.submitter.submit(
        [
            farm.sent(one),
            farm.sent(stranger),
            farm.sent(two, success=False),
            farm.sent(three, "bot-2"),
            farm.sent(one),
        ]
    )
    assert said(answers[0])["status"] == "done"
    assert refused(answers[1]) == "job_not_found"
    assert said(answers[2])["status"] == "pending"
    assert refused(answers[3]) == "not_assigned"
    assert said(answers[4]) == said(answers[0]), "the same job twice in one batch"


async def test_two_bodies_for_one_job_in_one_batch(farm: Farm) -> None:
    job = await farm.one()
    first, second = await farm.opilio.submitter.submit([farm.sent(job, price=1), farm.sent(job, price=2)])
    assert said(first)["price"] == 1
    assert refused(second) == "invalid_state"


async def test_twins_at_the_same_time(farm: Farm) -> None:
    """A bot's network retry that overtakes its first attempt."""
    job = await farm.one()
    answers = await asyncio.gather(*(farm.submit(job) for _ in range(8)))
    assert all(said(answer) == said(answers[0]) for answer in answers)
    assert await farm.value("select count(*) from stored_result") == 1


async def test_submit_against_the_sweeper(farm: Farm) -> None:
    """Whoever comes first wins; the other finds nothing left to do."""
    jobs: list[PulledJob] = []
    await farm.policies(40)
    await farm.due()
    jobs = await farm.pull(most=40)
    farm.later(seconds=599)
    farm.clock.at += timedelta(seconds=1)

    async def sweep() -> None:
        for _ in range(8):
            await farm.opilio.lock_expiry.run_once(most=5)

    late, _ = await asyncio.gather(asyncio.gather(*(farm.submit(job) for job in jobs)), sweep())
    assert {refused(answer) for answer in late} == {"lock_expired"}
    assert await farm.value("select count(*) from late_result") == 40


async def test_a_deleted_policy_ends_with_its_running_job(farm: Farm) -> None:
    job = await farm.one()
    await farm.opilio.policies.delete([(await farm.opilio.insights.job(job.job_id)).policy_id])
    answer = said(await farm.fail(job))
    assert answer["status"] == "failed"
    assert answer["message"] == "no retries are left"


async def test_a_large_page_lies_in_object_storage(farm: Farm) -> None:
    job = await farm.one()
    page = "<p>" + "ă" * 300_000
    result = said(await farm.submit(job, raw_html=page))["result_id"]
    (row,) = await farm.rows("select body, blob_key from result_html")
    assert row["body"] is None
    full = await farm.opilio.insights.result(UUID(result), farm.opilio.pages.get_page)
    assert full.raw_html == page


async def test_a_small_page_lies_with_its_result(farm: Farm) -> None:
    job = await farm.one()
    await farm.submit(job, raw_html="<p>hi</p>", html_hash="abc")
    assert await farm.value("select raw_html from crawl_result") == "<p>hi</p>"


async def test_jitter_spreads_policies_that_were_imported_together(farm_with: object) -> None:
    farm = farm_with(schedule_jitter=0.1)  # type: ignore[operator]
    await farm.policies(50)
    await farm.due()
    for job in await farm.pull(most=50):
        await farm.submit(job)
    runs = [
        row["next_run_at"] - farm.clock.at for row in await farm.rows("select next_run_at from policy_state")
    ]
    assert len(set(runs)) > 40
    assert timedelta(hours=24) <= min(runs)
    assert max(runs) <= timedelta(hours=26.4)


async def test_a_policy_that_moved_takes_its_retry_along(farm: Farm) -> None:
    job = await farm.one()
    policy_id = (await farm.opilio.insights.job(job.job_id)).policy_id
    await farm.opilio.policies.change(policy_id, PolicyPatch(url="https://other.example/", queue="js"))
    await farm.fail(job)
    shown = await farm.opilio.insights.job(job.job_id)
    assert (shown.host, shown.queue) == ("other.example", "js")
