"""A bot asks for work."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import pytest

from opilio.contracts.bot_api import PullAnswer
from opilio.crawl import skipped
from opilio.crawl.pull import Pull
from tests.crawl.farm import Farm, FarmMaker


async def test_it_works(farm: Farm) -> None:
    await farm.policy(
        "https://shop.example/lamp",
        priority=70,
        crawl_config={"headers": {"a": "b"}},
        rule_set={"price": ".p"},
    )
    await farm.due()
    answer = await farm.ask("bot-1")
    assert answer.count == 1
    assert answer.retry_after is None
    (job,) = answer.jobs
    assert (job.url, job.priority, job.queue) == ("https://shop.example/lamp", 70, "http")
    assert (job.max_retries, job.retry_count, job.timeout_seconds) == (3, 0, 600)
    assert job.locked_until == farm.clock.at + timedelta(seconds=600)
    assert bytes(job.crawl_config) == b'{"headers": {"a": "b"}}'
    shown = await farm.opilio.insights.job(job.job_id)
    assert (shown.status, shown.locked_by) == ("locked", "bot-1")


async def test_pulls_of_a_queue_take_turns(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    await farm.policies(30)
    await farm.due()
    puller, running, most = farm.opilio.puller, 0, 0
    pull_many = puller.pull_many

    async def counted(pulls: Sequence[Pull]) -> list[PullAnswer]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            return await pull_many(pulls)
        finally:
            running -= 1

    monkeypatch.setattr(puller, "pull_many", counted)
    # More than one batch may hold, so that some wait.
    bots = [Pull(f"bot-{n}", 100, ("http",)) for n in range(10)]
    answers = await asyncio.gather(*(farm.opilio.dispatcher.pull(bot) for bot in bots))
    assert most == 1
    assert len({job.job_id for answer in answers for job in answer.jobs}) == 30


async def test_nothing_to_do(farm: Farm) -> None:
    answer = await farm.ask()
    assert (answer.count, answer.jobs, answer.skipped) == (0, [], 0)
    assert answer.retry_after == 60


async def test_retry_after_says_when_to_ask_again(farm: Farm) -> None:
    await farm.policy(next_run_at=farm.clock.at + timedelta(seconds=17))
    assert (await farm.ask()).retry_after == 17


async def test_no_more_than_asked_for(farm: Farm) -> None:
    await farm.policies(5)
    await farm.due()
    assert len(await farm.pull(most=3)) == 3
    assert len(await farm.pull(most=3)) == 2


async def test_a_locked_job_is_not_handed_out_again(farm: Farm) -> None:
    await farm.policies(2)
    await farm.due()
    first = await farm.pull("bot-1")
    answer = await farm.ask("bot-2")
    assert len(first) == 2
    assert answer.jobs == []
    assert answer.skipped == 2, "they are held by another bot"
    assert (await farm.ask("bot-1")).skipped == 0, "its own locks are not skipped"


async def test_skipped_counts_up_to_a_hundred(farm: Farm) -> None:
    await farm.policies(120)
    await farm.due()
    assert len(await farm.pull("bot-1", 100)) == 100
    assert len(await farm.pull("bot-1", 20)) == 20
    assert (await farm.ask("bot-2")).skipped == 100


async def test_that_very_many_are_skipped_is_believed_for_a_moment(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    await farm.policies(330)
    await farm.due()
    held = [(bot, job) for bot in ("bot-1", "bot-2", "bot-3") for job in await farm.pull(bot, 100)]
    monkeypatch.setattr(skipped, "_CROWDED_SECONDS", 3600)
    assert (await farm.ask("bot-4", 1)).skipped == 100
    for bot, job in held:
        await farm.release(job, bot)
    assert (await farm.ask("bot-5", 1)).skipped == 100, "as it was counted for the other"
    monkeypatch.setattr(skipped, "_CROWDED_SECONDS", 0)
    assert (await farm.ask("bot-5", 1)).skipped == 1
    monkeypatch.setattr(skipped, "_CROWDED_SECONDS", 3600)
    await farm.pull("bot-1", 1)
    assert (await farm.ask("bot-5", 1)).skipped == 2, "a number below the bound is counted anew"


async def test_own_locks_do_not_hide_those_of_others(farm: Farm) -> None:
    await farm.policies(230)
    await farm.due()
    for _ in range(2):
        await farm.pull("bot-1", 100)
    assert len(await farm.pull("bot-2", 30)) == 30
    assert (await farm.ask("bot-1")).skipped == 30


async def test_the_best_first(farm: Farm) -> None:
    for priority in (10, 90, 50, 90):
        await farm.policy(priority=priority)
    await farm.due()
    assert [job.priority for job in await farm.pull()] == [90, 90, 50, 10]


async def test_the_oldest_first_among_equals(farm: Farm) -> None:
    urls = []
    for n in range(3):
        urls.append(f"https://shop.example/{n}")
        await farm.policy(urls[-1])
        await farm.due()
    assert [job.url for job in await farm.pull()] == urls


async def test_a_bot_gets_only_what_it_can_do(farm: Farm) -> None:
    await farm.policy("https://shop.example/plain")
    await farm.policy("https://shop.example/js", crawl_config={"js_required": True})
    await farm.policy("https://shop.example/special", queue="special")
    await farm.due()
    assert [job.url for job in await farm.pull(queues=("js",))] == ["https://shop.example/js"]
    rest = await farm.pull(queues=("http", "special"))
    assert {job.queue for job in rest} == {"http", "special"}


async def test_the_domain_means_the_host_and_its_subdomains(farm: Farm) -> None:
    hosts = [
        "example.com",
        "shop.example.com",
        "a.b.example.com",
        "notexample.com",
        "example.com.evil.org",
        "example.org",
    ]
    for host in hosts:
        await farm.policy(f"https://{host}/")
    await farm.due()
    found = await farm.pull(domain="example.com")
    assert sorted(job.url for job in found) == [
        "https://a.b.example.com/", "https://example.com/", "https://shop.example.com/",
    ]  # fmt: skip


async def test_the_domain_is_no_pattern(farm: Farm) -> None:
    await farm.policy("https://x.aXb.example/")
    await farm.due()
    assert await farm.pull(domain="a_b.example") == []


async def test_the_domain_counts_for_skipped(farm: Farm) -> None:
    await farm.policy("https://one.example/")
    await farm.policy("https://two.example/")
    await farm.due()
    await farm.pull("bot-1")
    assert (await farm.ask("bot-2", domain="one.example")).skipped == 1


async def test_a_retry_waits_for_its_time(farm: Farm) -> None:
    job = await farm.one()
    await farm.fail(job)
    assert await farm.pull() == []
    farm.later(minutes=4, seconds=59)
    answer = await farm.ask()
    assert (answer.jobs, answer.retry_after) == ([], 1.0)
    farm.later(seconds=1)
    (again,) = await farm.pull()
    assert again.job_id == job.job_id
    assert (again.retry_count, again.priority) == (1, 45)
    assert again.lock_token != job.lock_token


async def test_every_lock_has_a_token_of_its_own(farm: Farm) -> None:
    await farm.policies(50)
    await farm.due()
    tokens: list[UUID] = []
    for _ in range(4):
        jobs = await farm.pull(most=50)
        tokens += [job.lock_token for job in jobs]
        for job in jobs:
            await farm.release(job)
    assert len(set(tokens)) == len(tokens) == 200


async def test_many_pulls_at_once_share_without_overlap(farm: Farm) -> None:
    await farm.policies(100)
    await farm.due()
    answers = await asyncio.gather(*(farm.ask(f"bot-{n}", 7) for n in range(20)))
    jobs = [job.job_id for answer in answers for job in answer.jobs]
    assert len(jobs) == len(set(jobs)) == 100
    for n, answer in enumerate(answers):
        for job in answer.jobs:
            assert (await farm.opilio.insights.job(job.job_id)).locked_by == f"bot-{n}"


async def test_processes_share_without_overlap(farm_with: FarmMaker) -> None:
    farms = [farm_with() for _ in range(8)]
    await farms[0].policies(200)
    await farms[0].due()

    async def drain(farm: Farm, bot: str) -> list[UUID]:
        found: list[UUID] = []
        while jobs := await farm.pull(bot, 5):
            found += [job.job_id for job in jobs]
        return found

    found = await asyncio.gather(*(drain(farm, f"bot-{n}") for n, farm in enumerate(farms)))
    jobs = [job for some in found for job in some]
    assert len(jobs) == len(set(jobs)) == 200
    await farms[0].audit()


async def test_a_long_poll_ends_when_work_appears(farm: Farm) -> None:
    waiting = asyncio.create_task(farm.opilio.dispatcher.pull(Pull("bot-1", 1, ("http",)), wait_seconds=20))
    await asyncio.sleep(0)
    await farm.policy()
    await farm.due()
    farm.opilio.dispatcher.wake()
    answer = await asyncio.wait_for(waiting, 5)
    assert answer.count == 1


async def test_a_long_poll_comes_back_empty_in_time(farm: Farm) -> None:
    answer = await asyncio.wait_for(
        farm.opilio.dispatcher.pull(Pull("bot-1", 1, ("http",)), wait_seconds=0.05), 5
    )
    assert answer.count == 0


async def test_work_that_arrives_during_a_pull_is_not_missed(farm: Farm) -> None:
    dispatcher, puller = farm.opilio.dispatcher, farm.opilio.puller
    pulled = asyncio.Event()
    pull_many = puller.pull_many

    async def slow(pulls: object) -> object:
        answers = await pull_many(pulls)  # type: ignore[arg-type]
        if not pulled.is_set():
            pulled.set()
            await farm.policy()
            await farm.due()
            dispatcher.wake()
        return answers

    puller.pull_many = slow  # type: ignore[method-assign, assignment]
    answer = await asyncio.wait_for(dispatcher.pull(Pull("bot-1", 1, ("http",)), wait_seconds=20), 5)
    assert answer.count == 1
