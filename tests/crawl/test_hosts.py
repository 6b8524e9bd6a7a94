"""Politeness: what a host allows holds for all bots together, whatever happens at once."""

import asyncio
from datetime import timedelta

import pytest

from opilio.crawl.politeness import PROBE, Limits
from opilio.errors import Invalid
from tests.crawl.farm import Farm, FarmMaker, said


async def limit(
    farm: Farm, host: str = "shop.example", *, cap: int | None = None, delay: float | None = None
) -> None:
    await farm.opilio.hosts.set_limits(host, Limits(cap, delay))


async def test_it_works(farm: Farm) -> None:
    await farm.policies(5)
    await limit(farm, cap=2)
    await farm.due()
    answer = await farm.ask()
    assert answer.count == 2
    assert (await farm.ask("bot-2")).count == 0
    shown = await farm.opilio.insights.host("shop.example")
    assert (shown.max_concurrent, shown.locked, shown.waiting) == (2, 2, 3)


async def test_politeness_is_off_unless_set(farm: Farm) -> None:
    await farm.policies(10)
    await farm.due()
    assert len(await farm.pull(most=10)) == 10


async def test_a_lock_that_ends_makes_room_at_once(farm: Farm) -> None:
    await farm.policies(6)
    await limit(farm, cap=1)
    await farm.due()
    for end in (farm.submit, farm.fail, farm.release):
        (job,) = await farm.pull()
        assert await farm.pull("bot-2") == []
        await end(job)  # type: ignore[operator]
        (job,) = await farm.pull("bot-2")
        await farm.submit(job, "bot-2")


async def test_an_expired_lock_makes_room(farm: Farm) -> None:
    await farm.policies(2, timeout_minutes=0.1)
    await limit(farm, cap=1)
    await farm.due()
    await farm.pull()
    farm.later(seconds=6)
    assert await farm.pull() == [], "until the sweeper has ended the lock it is held"
    await farm.opilio.lock_expiry.run_once()
    assert len(await farm.pull()) == 1


async def test_eight_pullers_never_exceed_a_cap_of_one(farm_with: FarmMaker) -> None:
    farms = [farm_with() for _ in range(8)]
    first = farms[0]
    await first.policies(40)
    await limit(first, cap=1)
    await first.due()
    running, most, done = 0, 0, 0

    async def bot(farm: Farm, name: str) -> None:
        nonlocal running, most, done
        while done < 40:
            jobs = await farm.pull(name, 3)
            for job in jobs:
                running += 1
                most = max(most, running)
                await asyncio.sleep(0)
                running -= 1  # before the submit, because the next lock may follow it at once
                said(await farm.submit(job, name))
                done += 1

    await asyncio.gather(*(bot(farm, f"bot-{n}") for n, farm in enumerate(farms)))
    assert (most, done) == (1, 40)
    await first.audit()


async def test_a_delay_hands_out_one_at_a_time(farm: Farm) -> None:
    await farm.policies(5)
    await limit(farm, delay=10)
    await farm.due()
    assert len(await farm.pull(most=5)) == 1
    answer = await farm.ask("bot-2")
    assert (answer.count, answer.retry_after) == (0, 10)
    farm.later(seconds=9)
    assert await farm.pull("bot-2") == []
    farm.later(seconds=1)
    assert len(await farm.pull("bot-2")) == 1


async def test_a_delay_holds_across_pullers(farm_with: FarmMaker) -> None:
    farms = [farm_with() for _ in range(8)]
    await farms[0].policies(30)
    await limit(farms[0], delay=10)
    await farms[0].due()
    for _ in range(5):
        answers = await asyncio.gather(*(farm.pull(f"bot-{n}", 3) for n, farm in enumerate(farms)))
        assert sum(map(len, answers)) == 1
        farms[0].later(seconds=10)


async def test_one_paused_host_does_not_block_the_others(farm: Farm) -> None:
    for n in range(30):
        await farm.policies(2, host=f"h{n}.example", priority=90 if n < 20 else 10)
        await limit(farm, f"h{n}.example", cap=1)
    await farm.due()
    found = [job for _ in range(30) for job in await farm.pull(most=1)]
    assert len({job.url.split("/")[2] for job in found}) == 30
    assert await farm.pull(most=100) == []


async def test_a_host_that_answers_429_is_closed_for_everyone(farm: Farm) -> None:
    await farm.policies(5)
    await farm.due()
    (job,) = await farm.pull("bot-1", 1)
    await farm.fail(job, error_code="RATE_LIMITED", retry_after=120)
    answer = await farm.ask("bot-2", 10)
    assert (answer.count, answer.skipped) == (0, 4)
    farm.later(seconds=119)
    assert await farm.pull("bot-2") == []
    farm.later(seconds=1)
    assert len(await farm.pull("bot-2")) == 4
    farm.later(minutes=5)
    assert [again.job_id for again in await farm.pull("bot-2")] == [job.job_id]


async def test_a_host_without_limits_is_common_again_after_its_cooling(farm: Farm) -> None:
    await farm.policies(3)
    await farm.due()
    (job,) = await farm.pull(most=1)
    await farm.fail(job, error_code="RATE_LIMITED", retry_after=60)
    farm.later(seconds=60)
    await farm.pull(most=1)
    assert await farm.value("select gated from host") is False
    await farm.policy("https://shop.example/new", priority=99)
    await farm.due()
    assert await farm.value("select place from job_active where priority = 99") == "free"
    assert [job.priority for job in await farm.pull(most=3)] == [99, 50]


async def test_a_shorter_cooling_does_not_end_a_longer_one(farm: Farm) -> None:
    await farm.policies(3)
    await farm.due()
    one, two = await farm.pull(most=2)
    await farm.fail(one, error_code="RATE_LIMITED", retry_after=3600)
    await farm.fail(two, error_code="RATE_LIMITED", retry_after=1)
    farm.later(minutes=30)
    assert await farm.pull() == []
    farm.later(minutes=30)
    assert len(await farm.pull()) == 3


async def test_two_429s_at_once_keep_the_longer_cooling(farm_with: FarmMaker) -> None:
    farm, other = farm_with(), farm_with()
    for wait, long in ((1, 3600), (3600, 1)):
        await farm.policies(2, host=f"w{wait}.example")
        await farm.due()
        one, two = await farm.pull(most=2, domain=f"w{wait}.example")
        await asyncio.gather(
            farm.fail(one, error_code="RATE_LIMITED", retry_after=wait),
            other.fail(two, error_code="RATE_LIMITED", retry_after=long),
        )
        until = await farm.value("select cooling_until from host where name = $1", f"w{wait}.example")
        assert until == farm.clock.at + timedelta(hours=1)


async def test_limits_apply_to_jobs_that_wait_already(farm: Farm) -> None:
    await farm.policies(6)
    await farm.due()
    await limit(farm, cap=2)
    assert await farm.value("select count(*) from job_active where place = 'gated'") == 6
    assert len(await farm.pull()) == 2


async def test_a_pull_that_meets_jobs_of_a_newly_limited_host_parks_them(farm: Farm) -> None:
    """The limits came between the making of the jobs and the pull, and nobody parked them yet."""
    await farm.policies(50, priority=90)
    await farm.policies(3, host="other.example", priority=10)
    await farm.due()
    await farm.rows("update host set gated = true, max_concurrent = 1 where name = 'shop.example'")
    jobs = await farm.pull(most=5)
    assert sorted(job.priority for job in jobs) == [10, 10, 10, 90]
    assert await farm.value("select count(*) from job_active where place = 'free'") == 0


async def test_limits_can_be_lifted(farm: Farm) -> None:
    await farm.policies(6)
    await limit(farm, cap=1)
    await farm.due()
    assert len(await farm.pull()) == 1
    await limit(farm)
    assert len(await farm.pull()) == 5


async def test_a_higher_cap_counts_at_once(farm: Farm) -> None:
    await farm.policies(6)
    await limit(farm, cap=1)
    await farm.due()
    assert len(await farm.pull()) == 1
    await limit(farm, cap=4)
    assert len(await farm.pull()) == 3


async def test_the_fleets_default_and_an_override(farm_with: FarmMaker) -> None:
    farm = farm_with(host_max_concurrent=2)
    for host in ("a.example", "b.example"):
        await farm.policies(5, host=host)
    await limit(farm, "b.example", cap=4)
    await farm.due()
    urls = [job.url.split("/")[2] for job in await farm.pull()]
    assert (urls.count("a.example"), urls.count("b.example")) == (2, 4)
    shown = await farm.opilio.insights.host("a.example")
    assert (shown.max_concurrent, shown.effective_max_concurrent) == (None, 2)
    await farm.audit()


@pytest.mark.parametrize("park", [True, False])
async def test_a_fleets_default_that_comes_later(farm_with: FarmMaker, park: bool) -> None:
    """Jobs made before the setting are found behind gates, with or without the scheduler's help."""
    before, after = farm_with(), farm_with(host_max_concurrent=1)
    await before.policies(5, host="a.example")
    await before.policies(5, host="b.example")
    await before.due()
    if park:
        assert await after.opilio.hosts.park_all() == 10
    assert len(await after.pull(most=10)) == 2
    assert await after.pull() == []
    await after.audit()


async def test_a_fleets_default_that_goes_away(farm_with: FarmMaker) -> None:
    before, after = farm_with(host_min_delay_seconds=3600), farm_with()
    await before.policies(5)
    await before.due()
    assert len(await before.pull()) == 1
    assert await before.pull() == []
    before.later(hours=1)
    assert len(await after.pull()) == 4


async def test_strict_priority_across_free_and_limited_hosts(farm: Farm) -> None:
    for n, priority in enumerate([95, 60, 85, 30]):
        await farm.policy(f"https://free.example/{n}", priority=priority)
    for n, priority in enumerate([90, 70, 20]):
        await farm.policy(f"https://one.example/{n}", priority=priority)
    for n, priority in enumerate([80, 75, 10]):
        await farm.policy(f"https://two.example/{n}", priority=priority)
    await limit(farm, "one.example", cap=10)
    await limit(farm, "two.example", cap=10)
    await farm.due()
    order = [job.priority for _ in range(5) for job in await farm.pull(most=2)]
    assert order == [95, 90, 85, 80, 75, 70, 60, 30, 20, 10]


async def test_better_work_behind_a_gate_is_found_at_once(farm: Farm) -> None:
    await farm.policy("https://one.example/low", priority=5)
    await limit(farm, "one.example", cap=10)
    await farm.due()
    await farm.policy("https://free.example/", priority=50)
    await farm.policy("https://one.example/high", priority=99)
    await farm.due()
    assert [job.priority for job in await farm.pull()] == [99, 50, 5]


async def test_a_gate_goes_when_nothing_is_behind_it(farm: Farm) -> None:
    await farm.policies(2)
    await limit(farm, cap=5)
    await farm.due()
    await farm.pull()
    assert await farm.value("select count(*) from gate") == 0


async def test_a_capability_behind_a_gate(farm: Farm) -> None:
    await farm.policy("https://shop.example/a", queue="js")
    await farm.policy("https://shop.example/b")
    await limit(farm, cap=1)
    await farm.due()
    (job,) = await farm.pull(queues=("js",))
    assert await farm.pull() == [], "the cap counts all queues of a host"
    await farm.submit(job)
    assert len(await farm.pull()) == 1


async def test_the_domain_respects_limits(farm: Farm) -> None:
    for host in ("a.shop.example", "b.shop.example"):
        await farm.policies(3, host=host)
    await limit(farm, "a.shop.example", cap=1)
    await farm.due()
    assert len(await farm.pull(most=10, domain="shop.example")) == 4


async def test_no_wake_up_is_lost_between_count_and_close(farm: Farm) -> None:
    """A lock ends while a pull that saw the host at its cap is about to close the gate."""
    await farm.policies(3)
    await limit(farm, cap=1)
    await farm.due()
    (job,) = await farm.pull()
    puller = farm.opilio.puller
    count = puller._count

    async def count_then_submit(*args: object) -> object:
        counted = await count(*args)  # type: ignore[arg-type]
        said(await farm.submit(job))
        return counted

    puller._count = count_then_submit  # type: ignore[method-assign, assignment]
    await farm.rows("update gate set open_at = '-infinity'")
    assert await farm.pull("bot-2") == []
    puller._count = count  # type: ignore[method-assign]
    assert len(await farm.pull("bot-2")) == 1, f"without waiting {PROBE} for the safety net"


async def test_no_work_is_lost_between_look_and_close(farm: Farm) -> None:
    """A job is added behind a gate while a pull that found nothing there is about to remove it."""
    await farm.policy("https://shop.example/1")
    await limit(farm, cap=5)
    await farm.due()
    puller = farm.opilio.puller
    count = puller._count

    async def count_then_add(*args: object) -> object:
        counted = await count(*args)  # type: ignore[arg-type]
        await farm.policy("https://shop.example/2", priority=80)
        await farm.due()
        return counted

    puller._count = count_then_add  # type: ignore[method-assign, assignment]
    first = await farm.pull(most=1)
    puller._count = count  # type: ignore[method-assign]
    await farm.audit()
    assert {job.url for job in [*first, *await farm.pull()]} == {
        "https://shop.example/1",
        "https://shop.example/2",
    }


async def test_creation_and_pulls_at_once_lose_nothing(farm_with: FarmMaker) -> None:
    farms = [farm_with(host_max_concurrent=3) for _ in range(4)]
    first = farms[0]
    total, done = 60, 0

    async def make() -> None:
        for n in range(total):
            await first.policy(f"https://h{n % 5}.example/{n}", priority=n % 100)
            await first.due()

    async def work(farm: Farm, bot: str) -> None:
        nonlocal done
        while done < total:
            for job in await farm.pull(bot, 2):
                said(await farm.submit(job, bot))
                done += 1
            await asyncio.sleep(0)

    await asyncio.wait_for(
        asyncio.gather(make(), *(work(farm, f"bot-{n}") for n, farm in enumerate(farms))), 60
    )
    await first.audit()


@pytest.mark.parametrize("name", ["https://shop.example", "a b", "", "shop.example/"])
async def test_what_is_no_host(farm: Farm, name: str) -> None:
    with pytest.raises(Invalid) as refusal:
        await limit(farm, name, cap=1)
    assert refusal.value.field == "host"


async def test_a_host_can_have_limits_before_it_has_policies(farm: Farm) -> None:
    await limit(farm, "New.Example", cap=1)
    await farm.policies(3, host="new.example")
    await farm.due()
    assert len(await farm.pull()) == 1


async def test_mending_puts_a_gate_back(farm: Farm) -> None:
    await farm.policies(3)
    await limit(farm, cap=2)
    await farm.due()
    await farm.rows("delete from gate")
    assert await farm.opilio.scheduler.repair() == 1
    assert len(await farm.pull()) == 2
