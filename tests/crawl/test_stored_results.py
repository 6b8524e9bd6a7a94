"""A result is stored as it was sent, however little of it is written because it is as before."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.contracts.bot_api import DoneAnswer
from opilio.crawl.history import Values
from tests.crawl.farm import Farm

LAMP = {"price": "10.00", "currency": "USD", "title": "A lamp", "in_stock": True}
FOUND: list[dict[str, Any]] = [
    LAMP,
    LAMP | {"price": "10.0"},
    LAMP | {"price": "10"},
    LAMP | {"in_stock": False},
    LAMP | {"in_stock": None},
    LAMP | {"title": None},
    LAMP | {"currency": "EUR"},
    LAMP | {"price": None, "currency": None, "data": {"rating": 4}},
    LAMP | {"data": {"rating": 4}},
]
COLUMNS = "price::text, currency, title, in_stock"


@pytest.mark.parametrize("remembered", [True, False])
async def test_every_result_is_stored_as_it_was_sent(farm: Farm, remembered: bool) -> None:
    await farm.policy(frequency_hours=1)
    found = [one for pair in permutations(FOUND, 2) for one in (*pair, pair[1])]
    for sent in found:
        farm.later(hours=2)
        await farm.due()
        (job,) = await farm.pull()
        if not remembered:
            farm.opilio.submitter._known.forget([job.job_id])
        await farm.submit(job, **sent)
    stored = await farm.rows(f"select {COLUMNS} from stored_result order by crawled_at")
    expected = [(one["price"], one["currency"], one["title"], one["in_stock"]) for one in found]
    assert [tuple(row) for row in stored] == expected


@pytest.mark.parametrize("remembered", [True, False])
async def test_what_a_crawl_says_beside_the_values_is_stored_also_if_they_are_as_before(
    farm: Farm, remembered: bool
) -> None:
    await farm.policy(frequency_hours=1)
    for n in (1, 2):
        farm.later(hours=2)
        await farm.due()
        (job,) = await farm.pull()
        if not remembered:
            farm.opilio.submitter._known.forget([job.job_id])
        said = {"html_hash": f"h{n}", "validators": {"etag": f"e{n}", "last_modified": f"m{n}"}}
        await farm.submit(job, **LAMP, **said, raw_html=f"<p>{n}", crawl_duration=n)
    stored = await farm.rows("select html_hash, crawl_duration from stored_result order by crawled_at")
    assert [tuple(row) for row in stored] == [("h1", 1.0), ("h2", 2.0)]
    assert [row["body"] for row in await farm.rows("select body from result_html order by crawled_at")] == ["<p>1", "<p>2"]  # fmt: skip
    (state,) = await farm.rows("select last_price::text, last_title, last_html_hash, etag, last_modified from crawl_state")  # fmt: skip
    assert tuple(state) == ("10.00", "A lamp", "h2", "e2", "m2")


async def test_the_bot_is_told_the_very_moment_that_is_stored(farm: Farm) -> None:
    await farm.policies(50, frequency_hours=7.3)
    await farm.due()
    jobs = await farm.pull(most=50)
    replies = await farm.opilio.submitter.submit([farm.sent(job) for job in jobs])
    told = {reply.data.job_id: reply.data.policy_next_run for reply in replies if isinstance(reply.data, DoneAnswer)}  # fmt: skip
    stored = await farm.rows("select job_id, next_run_at from job_archive")
    due = await farm.rows("select next_run_at from crawl_state order by 1")
    assert {row["job_id"]: row["next_run_at"] for row in stored} == told
    assert [row["next_run_at"] for row in due] == sorted(told.values())


async def test_moments_survive_as_seconds(farm: Farm) -> None:
    """`finish_jobs` gets moments as numbers: no microsecond is lost before 2100."""
    begin = datetime(2020, 1, 1, tzinfo=UTC)
    moments = [begin + timedelta(days=n * 5.8, microseconds=n * 7_919 % 1_000_000) for n in range(5_000)]
    read = await farm.rows(
        "select to_timestamp(s) as at from json_array_elements_text($1::json) with ordinality x(text, n), float8(text) s order by n",
        [moment.timestamp() for moment in moments],
    )
    assert [row["at"] for row in read] == moments


prices = st.none() | st.decimals(0, 100, places=2) | st.sampled_from([Decimal(10), Decimal("10.0"), Decimal("10.00")])  # fmt: skip
values = st.builds(
    Values, price=prices, currency=st.sampled_from([None, "USD"]), title=st.sampled_from([None, "", "A"]),
    in_stock=st.sampled_from([None, True, False]),
)  # fmt: skip


@given(values, values)
def test_the_same_is_the_same_to_the_digit(one: Values, other: Values) -> None:
    def said(found: Values) -> tuple[object, ...]:
        return str(found.price), found.currency, found.title, found.in_stock

    assert one.same_as(other) is (said(one) == said(other))
    assert one.same_as(one)
