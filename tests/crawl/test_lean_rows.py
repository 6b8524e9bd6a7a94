"""Rows keep nothing twice, and are read as if they did."""

from typing import Any
from uuid import UUID

import msgspec

from opilio.adapters.postgres import migrate
from opilio.contracts.events import JobCompleted
from tests.crawl.farm import Farm, said

BODY = "select body from event_log order by seq desc limit 1"
PAGE: dict[str, Any] = {
    "price": 19.5, "currency": "EUR", "title": "Lamp", "in_stock": False, "html_hash": "abc", "crawl_duration": 0.5,
    "data": {"sku": "7", "sizes": [1, None], "colour": None},
}  # fmt: skip


def event(body: bytes) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.json.decode(body)["data"]
    return data


async def test_a_completed_event_says_every_field(farm: Farm) -> None:
    job = await farm.one()
    answer = said(await farm.submit(job, **PAGE))
    body = await farm.value(BODY)
    told = event(body)
    assert set(told) == set(JobCompleted.__struct_fields__)
    assert told == PAGE | {
        "job_id": str(job.job_id),
        "policy_id": str(await farm.value("select policy_id from policy")),
        "result_id": answer["result_id"],
        "url": job.url,
        "crawled_at": farm.clock.at.isoformat().replace("+00:00", "Z"),
        "bot_id": "bot-1",
        "changed": ["price", "currency", "title", "in_stock", "data.sku"],
        "not_modified": False,
    }
    msgspec.convert(told, JobCompleted, strict=False)
    assert msgspec.json.decode(body)["time"] == told["crawled_at"]
    assert await farm.value("select data from event_log") == told


async def test_what_the_row_says_is_not_kept_in_its_data_again(farm: Farm) -> None:
    await farm.submit(await farm.one())
    assert await farm.value("select count(*) from event") == 0
    assert await farm.value("select count(*) from result") == 0
    (row,) = await farm.rows("select * from job_archive")
    assert row["outcome_id"] == await farm.value("select result_id from stored_result")
    assert row["outcome_id"] == await farm.value("select event_id from event_log")
    assert row["result_id"] is row["answer"] is None
    assert row["changed"] == ["price", "currency"]


async def test_an_event_of_the_version_before_is_read_as_it_is(farm: Farm) -> None:
    await farm.rows(
        "insert into event (type, subject, data, occurred_at) values ('crawl.job.completed', 'u', '{\"a\": 1}', now())"
    )
    assert event(await farm.value(BODY)) == {"a": 1}


async def test_events_are_the_same_after_going_down_and_up(farm: Farm, database_url: str) -> None:
    await farm.submit(await farm.one(), **PAGE)
    before = await farm.value(BODY)
    await migrate.downgrade(database_url, "0019")
    assert await farm.value(BODY) == before
    assert set(await farm.value("select data from event")) == set(JobCompleted.__struct_fields__)
    await migrate.upgrade(database_url)
    assert await farm.value(BODY) == before


async def test_a_short_answer_is_completed_from_its_row(farm: Farm, database_url: str) -> None:
    job = await farm.one()
    first = said(await farm.submit(job, price=9.5))
    assert await farm.value("select answer from job_archive") is None
    assert said(await farm.submit(job, price=9.5)) == first
    await migrate.downgrade(database_url, "0019")
    assert (
        await farm.value("select answer from job_archive where job_id = $1", UUID(first["job_id"])) == first
    )
    await migrate.upgrade(database_url)
    assert said(await farm.submit(job, price=9.5)) == first
