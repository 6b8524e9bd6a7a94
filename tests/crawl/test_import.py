"""Thousands of policies in one statement, each row answered."""

import asyncio
from datetime import timedelta

import pytest

from opilio.contracts.policies import ImportRow, PolicyInput, PolicyPatch
from opilio.crawl.import_policies import import_rows, preview_rows, read_csv
from opilio.crawl.policies import Draft
from opilio.errors import Conflict, Invalid, NotFound
from tests.crawl.farm import Farm, FarmMaker


async def load(farm: Farm, *drafts: tuple[str, PolicyPatch]) -> list[ImportRow]:
    return await farm.opilio.policies.import_drafts(
        [Draft(n, url, patch) for n, (url, patch) in enumerate(drafts, start=1)]
    )


async def test_it_works(farm: Farm) -> None:
    rows = await load(
        farm, ("https://a.example/1", PolicyPatch()), ("https://a.example/2", PolicyPatch(priority=90))
    )
    assert [(row.row, row.status) for row in rows] == [(1, "created"), (2, "created")]
    assert await farm.due() == 2


async def test_every_row_is_answered(farm: Farm) -> None:
    rows = await load(
        farm,
        ("https://A.example/1#x", PolicyPatch()),
        ("http://10.0.0.1/", PolicyPatch()),
        ("https://a.example/1", PolicyPatch(priority=70)),
        ("https://a.example/2", PolicyPatch(labels={"": "x"})),
    )
    assert [row.status for row in rows] == ["created", "rejected", "updated", "rejected"]
    assert "private" in str(rows[1].error)
    assert str(rows[3].error).startswith("labels:")
    assert await farm.value("select priority from policy") == 70


async def test_a_preview_answers_as_the_import_would_and_writes_nothing(farm: Farm) -> None:
    await load(farm, ("https://a.example/1", PolicyPatch(priority=5)))
    lines = [
        "url,priority",
        "https://A.example/1,70",
        "https://a.example/2,1",
        "https://a.example/2,2",
        "https://a.example/3,700",
        "http://10.0.0.1/,1",
    ]
    policies = farm.opilio.policies
    preview = [row async for rows in preview_rows(policies, read_csv(lines), batch=2) for row in rows]
    assert [row.status for row in preview] == ["updated", "created", "updated", "rejected", "rejected"]
    assert await farm.rows("select url, priority from policy") == [("https://a.example/1", 5)]
    answers = [row async for rows in import_rows(policies, read_csv(lines), batch=2) for row in rows]
    assert answers == preview


async def test_what_a_row_does_not_say_stays(farm: Farm) -> None:
    url = "https://a.example/1"
    await load(farm, (url, PolicyPatch(priority=70, labels={"a": "b"}, frequency_hours=6)))
    await load(farm, (url, PolicyPatch(frequency_hours=12)))
    (row,) = await farm.rows("select * from crawl_policy")
    assert (row["priority"], row["frequency_hours"], row["labels"]) == (70, 12, {"a": "b"})


async def test_an_import_can_switch_off_and_move(farm: Farm) -> None:
    one, two = "https://a.example/1", "https://a.example/2"
    await load(farm, (one, PolicyPatch()), (two, PolicyPatch()))
    await load(
        farm,
        (one, PolicyPatch(enabled=False)),
        (two, PolicyPatch(next_run_at=farm.clock.at + timedelta(hours=1))),
    )
    assert await farm.due() == 0
    farm.later(hours=1)
    assert await farm.due() == 1


async def test_a_waiting_job_follows_its_queue(farm: Farm) -> None:
    url = "https://a.example/1"
    await load(farm, (url, PolicyPatch()))
    await farm.due()
    await load(farm, (url, PolicyPatch(crawl_config={"js_required": True})))
    assert await farm.pull() == []
    assert len(await farm.pull(queues=("js",))) == 1


async def test_imports_of_the_same_urls_at_once(farm_with: FarmMaker) -> None:
    farms = [farm_with() for _ in range(4)]
    urls = [
        (f"https://h{n % 7}.example/{n}", PolicyPatch(priority=n % 100, enabled=True)) for n in range(300)
    ]
    answers = await asyncio.gather(
        *(load(farm, *(urls if n % 2 else reversed(urls))) for n, farm in enumerate(farms))
    )
    created = sum(row.status == "created" for rows in answers for row in rows)
    assert created == 300
    assert all(row.status in {"created", "updated"} for rows in answers for row in rows)
    assert await farms[0].value("select count(*) from policy") == 300
    await farms[0].audit()


async def test_imports_beside_submits(farm_with: FarmMaker) -> None:
    """Both lock the same policies, each in its own order: a deadlock costs time, never an answer."""
    one, two = farm_with(), farm_with()
    urls = [(f"https://a.example/{n}", PolicyPatch(enabled=True)) for n in range(60)]
    await load(one, *urls)
    for _ in range(3):
        await one.due()
        jobs = await one.pull(most=60)
        await asyncio.gather(
            one.opilio.submitter.submit([one.sent(job) for job in jobs]), load(two, *reversed(urls))
        )
        await one.audit()
        one.later(days=1)


async def test_a_duplicate_is_refused(farm: Farm) -> None:
    first = await farm.policy("https://a.example/1")
    with pytest.raises(Conflict) as refusal:
        await farm.policy("https://A.example:443/1#top")
    assert refusal.value.code == "conflict"
    assert refusal.value.details == {"id": str(first)}


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        (PolicyPatch(url="http://localhost/"), "url"),
        (PolicyPatch(frequency_hours=float("inf")), "frequency_hours"),
    ],
)
async def test_a_change_that_makes_no_sense(farm: Farm, patch: PolicyPatch, field: str) -> None:
    policy_id = await farm.policy()
    with pytest.raises(Invalid) as refusal:
        await farm.opilio.policies.change(policy_id, patch)
    assert refusal.value.field == field


async def test_a_change_to_a_url_that_is_taken(farm: Farm) -> None:
    await farm.policy("https://a.example/1")
    second = await farm.policy("https://a.example/2")
    with pytest.raises(Conflict):
        await farm.opilio.policies.change(second, PolicyPatch(url="https://a.example/1"))


async def test_a_change_of_nothing_that_exists(farm: Farm) -> None:
    policy_id = await farm.policy()
    await farm.opilio.policies.delete([policy_id])
    with pytest.raises(NotFound):
        await farm.opilio.policies.change(policy_id, PolicyPatch(priority=1))


async def test_two_changes_of_the_host_at_once(farm: Farm) -> None:
    """The second one waits for the first, and finds the policy where that one left it."""
    policy_id = await farm.policy("https://a.example/1")
    await farm.policy("https://b.example/2")
    async with farm.database.transaction() as first:
        await first.connection.execute(
            "update policy set url = 'https://b.example/1', host_id = (select host_id from host where name = 'b.example') "
            "where policy_id = $1",
            policy_id,
        )
        second = asyncio.create_task(farm.opilio.policies.change(policy_id, PolicyPatch(priority=7)))
        while not await farm.value("select exists (select 1 from pg_locks where not granted)"):
            await asyncio.sleep(0.01)
    await second
    assert (
        await farm.value("select url || ' ' || priority from policy where priority = 7")
        == "https://b.example/1 7"
    )


async def test_a_waiting_job_follows_its_host(farm: Farm) -> None:
    policy_id = await farm.policy("https://a.example/1")
    await farm.due()
    await farm.opilio.policies.change(policy_id, PolicyPatch(url="https://b.example/1"))
    assert await farm.pull(domain="a.example") == []
    (job,) = await farm.pull(domain="b.example")
    assert job.url == "https://b.example/1"


async def test_the_defaults(farm: Farm) -> None:
    policy = await farm.opilio.insights.policy(await farm.policy())
    wanted = PolicyInput(url=policy.url)
    for field in (
        "frequency_hours",
        "priority",
        "max_retries",
        "retry_backoff_minutes",
        "timeout_minutes",
        "hot",
        "enabled",
    ):
        assert getattr(policy, field) == getattr(wanted, field)
    assert policy.next_run_at == farm.clock.at, "due now"
