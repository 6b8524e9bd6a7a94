"""What a crawl sees for the first time is one row, and is shown as one change for each value."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from opilio.adapters.postgres import migrate
from tests.crawl.farm import Farm, said

SHOWN = "select field, old, new, job_id, at from value_change order by change_id"


async def crawl(farm: Farm, **found: Any) -> UUID:
    farm.later(days=2)
    await farm.due()
    (job,) = await farm.pull()
    await farm.submit(job, **found)
    return job.job_id


async def test_it_works(farm: Farm) -> None:
    policy_id = await farm.policy()
    first = await crawl(farm, price=20, currency="USD", title="Lamp", in_stock=True, data={"sku": "7"})
    seen_at = farm.clock.at
    second = await crawl(
        farm, price=18, currency="USD", title="Lamp", in_stock=True, data={"sku": "7", "size": 3}
    )
    assert await farm.value("select count(*) from changed_value") == 1
    assert await farm.value("select count(*) from first_values") == 2
    assert [tuple(row) for row in await farm.rows(SHOWN)] == [
        ("price", None, 20, first, seen_at),
        ("currency", None, "USD", first, seen_at),
        ("title", None, "Lamp", first, seen_at),
        ("in_stock", None, True, first, seen_at),
        ("data.sku", None, "7", first, seen_at),
        ("price", 20, 18, second, farm.clock.at),
        ("data.size", None, 3, second, farm.clock.at),
    ]
    assert [row["value"] for row in await farm.opilio.figures.values(policy_id, "price")] == [20, 18]
    assert "data.sku" in await farm.opilio.figures.fields(policy_id)


async def test_pages_of_the_history_split_a_row(farm: Farm) -> None:
    """Each page ends where it must; nothing is shown twice or left out."""
    policy_id = await farm.policy()
    await crawl(farm, data={f"k{n:02}": n for n in range(60)}, title="Lamp", in_stock=True)
    await crawl(farm, price=1)
    shown: list[str] = []
    cursor: str | None = None
    while True:
        page = await farm.opilio.insights.history(policy_id, limit=5, cursor=cursor)
        shown += [row.field for row in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    tracked = [f"data.k{n:02}" for n in range(50)]
    assert shown == ["price", *reversed(["price", "currency", "title", "in_stock", *tracked])]


async def test_a_batch_keeps_pages_apart(farm: Farm) -> None:
    await farm.policies(3)
    await farm.due()
    jobs = await farm.pull()
    sent = [farm.sent(job, price=n + 1) for n, job in enumerate(jobs)]
    await farm.opilio.submitter.submit(sent)
    assert await farm.value("select count(*) from first_values") == 3
    found = await farm.rows("select job_id, new from value_change where field = 'price' order by change_id")
    assert [tuple(row) for row in found] == [(job.job_id, n + 1) for n, job in enumerate(jobs)]


async def test_a_first_price_is_no_price_change(farm: Farm) -> None:
    await farm.policy()
    await crawl(farm, price=20)
    assert await farm.rows("select 1 from value_change where field = 'price' and old is not null") == []
    await crawl(farm, price=18)
    (change,) = await farm.rows("select old, new from value_change where field = 'price' and old is not null")
    assert tuple(change) == (20, 18)


async def test_the_version_before_writes_and_deletes_through_the_view(farm: Farm) -> None:
    policy_id = await farm.policy()
    job_id = await crawl(farm, price=20, currency="USD")
    await farm.rows(
        "insert into value_change (policy_id, job_id, field, old, new, at) values ($1, $2, 'price', $3, $4, $5)",
        policy_id, job_id, 20, 18, farm.clock.at,
    )  # fmt: skip
    assert [row["new"] for row in await farm.rows(SHOWN)] == [20, "USD", 18]
    await farm.rows("""
        with oldest as materialized (select v.change_id, v.at from value_change v order by v.change_id limit 2)
        delete from value_change v using oldest o where v.change_id = o.change_id and o.at < now() + interval '9 days'""")
    assert [row["new"] for row in await farm.rows(SHOWN)] == [18]


async def test_the_history_is_the_same_after_going_down_and_up(farm: Farm, database_url: str) -> None:
    await farm.policy()
    await crawl(farm, price=20, currency="USD", title="Lamp")
    await crawl(farm, price=18)
    await crawl(farm, price=18, data={"sku": "7"})
    before = [tuple(row) for row in await farm.rows(SHOWN)]
    await migrate.downgrade(database_url, "0021")
    assert [tuple(row) for row in await farm.rows(SHOWN)] == before
    await farm.rows(
        "insert into value_change (policy_id, job_id, field, at) select policy_id, job_id, 'x', at from value_change limit 1"
    )
    await migrate.upgrade(database_url)
    assert [tuple(row) for row in await farm.rows(SHOWN)][:-1] == before
    await crawl(farm, price=17)
    assert [row["new"] for row in await farm.rows(SHOWN)][-1] == 17


@pytest.mark.parametrize("fields", [{}, {"price": None, "currency": None, "not_modified": True}])
async def test_the_answer_is_kept_without_what_its_row_says(farm: Farm, fields: dict[str, Any]) -> None:
    await farm.policy()
    await crawl(farm, price=9.5)
    farm.later(days=2)
    await farm.due()
    (job,) = await farm.pull()
    first = said(await farm.submit(job, **fields))
    kept, next_run_at = (
        await farm.rows("select answer, next_run_at from job_archive where job_id = $1", job.job_id)
    )[0]
    assert (kept or {}).keys() <= {"price", "currency", "result_id"}
    assert next_run_at > farm.clock.at + timedelta(minutes=1)
    assert said(await farm.submit(job, **fields)) == first
