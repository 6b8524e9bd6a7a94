"""The events of a URL: in rows of their own, or carried by jobs of policies that have it or had it."""

from typing import Any

from opilio.contracts.policies import PolicyPatch
from opilio.contracts.webhooks import Event
from opilio.delivery.sql import QUERIES
from tests.crawl.farm import Farm

LAMP, DESK = "https://shop.example/lamp", "https://shop.example/desk"


async def crawl(farm: Farm, *, fails: bool = False) -> None:
    farm.later(days=2)
    await farm.due()
    for job in await farm.pull():
        await (farm.fail(job) if fails else farm.submit(job))


async def told(farm: Farm, url: str, **conditions: Any) -> list[Event]:
    page = await farm.opilio.events.page(subject=url, **conditions)
    return page.items


async def test_it_works(farm: Farm) -> None:
    await farm.policy(LAMP, max_retries=0)
    await farm.policy(DESK, max_retries=0)
    await crawl(farm)
    await crawl(farm, fails=True)
    await crawl(farm)
    events = await told(farm, LAMP)
    assert [event.type for event in events] == [
        "crawl.job.completed",
        "crawl.job.failed",
        "crawl.job.completed",
    ]
    assert {event.subject for event in events} == {LAMP}
    both = await farm.opilio.events.page()
    assert [event for event in both.items if event.subject == LAMP] == events


async def test_what_was_said_of_a_url_stays_when_the_policy_gets_another_one(farm: Farm) -> None:
    policy_id = await farm.policy(LAMP)
    await crawl(farm)
    await farm.opilio.policies.change(policy_id, PolicyPatch(url=DESK))
    await crawl(farm)
    assert [event.subject for event in await told(farm, LAMP)] == [LAMP]
    assert [event.subject for event in await told(farm, DESK)] == [DESK]


async def test_what_was_said_of_a_url_stays_when_its_policy_is_deleted_and_made_again(farm: Farm) -> None:
    first = await farm.policy(LAMP)
    await crawl(farm)
    await farm.opilio.policies.delete([first])
    assert len(await told(farm, LAMP)) == 1
    await farm.policy(LAMP)
    await crawl(farm)
    assert len(await told(farm, LAMP)) == 2
    assert await farm.value("select count(distinct policy_id) from job_archive") == 2


async def test_pages_types_and_times(farm: Farm) -> None:
    await farm.policy(LAMP, max_retries=0)
    for fails in (False, True, False, True):
        await crawl(farm, fails=fails)
    whole = await told(farm, LAMP)
    first = await farm.opilio.events.page(subject=LAMP, limit=3)
    second = await farm.opilio.events.page(subject=LAMP, limit=3, cursor=first.next_cursor)
    assert first.items + second.items == whole
    assert await told(farm, LAMP, types=["crawl.job.failed"]) == [whole[0], whole[2]]
    assert await told(farm, LAMP, types=["crawl.job.completed"]) == [whole[1], whole[3]]
    assert await told(farm, LAMP, since=whole[1].time) == whole[:2]
    assert await told(farm, "https://shop.example/unknown") == []


async def test_jobs_are_found_by_their_policies(farm: Farm) -> None:
    """Not day by day through the archive."""
    await farm.policy(LAMP)
    await crawl(farm)
    statement = QUERIES.list_events_of_subject
    async with farm.database.transaction() as session:
        await session.connection.execute("set local enable_seqscan = off")
        arguments = [{"subject": LAMP, "most": 10}.get(name) for name in statement.params]
        rows = await session.connection.fetch(f"explain (costs off) {statement.sql}", *arguments)
    plan = "\n".join(row[0] for row in rows)
    assert "policy_id = ANY" in plan
    assert "Seq Scan" not in plan
