"""Which values of a URL changed, from what to what."""

from decimal import Decimal
from uuid import UUID, uuid4

import pytest

from opilio.errors import Invalid, NotFound
from tests.crawl.farm import Farm


async def crawl(farm: Farm, **found: object) -> UUID:
    if await farm.due() == 0:
        farm.later(hours=24)
        await farm.due()
    (job,) = await farm.pull()
    await farm.submit(job, **found)
    return job.job_id


async def test_it_works(farm: Farm) -> None:
    policy_id = await farm.policy()
    await crawl(farm, price=19.99, currency="USD", in_stock=True)
    job_id = await crawl(farm, price=17.50, currency="USD", in_stock=True)
    newest = (await farm.opilio.insights.history(policy_id)).items[0]
    assert (newest.field, newest.old, newest.new) == ("price", Decimal("19.99"), Decimal("17.5"))
    assert (newest.job_id, newest.at) == (job_id, farm.clock.at)


async def test_the_same_values_are_no_news(farm: Farm) -> None:
    policy_id = await farm.policy()
    for _ in range(3):
        await crawl(
            farm, price=19.9, currency="USD", data={"rating": 4.3, "tags": ["a"], "big": 1e20, "n": 10**18}
        )
    fields = [row.field for row in (await farm.opilio.insights.history(policy_id)).items]
    assert sorted(fields) == ["currency", "data.big", "data.n", "data.rating", "price"]


async def test_a_field_and_pages(farm: Farm) -> None:
    policy_id = await farm.policy()
    for price in range(1, 6):
        await crawl(farm, price=price, currency="USD")
    insights = farm.opilio.insights
    first = await insights.history(policy_id, limit=2, field="price")
    second = await insights.history(policy_id, limit=2, field="price", cursor=first.next_cursor)
    third = await insights.history(policy_id, limit=2, field="price", cursor=second.next_cursor)
    assert [row.new for page in (first, second, third) for row in page.items] == [5, 4, 3, 2, 1]
    assert third.next_cursor is None


@pytest.mark.parametrize("cursor", ["x", "%%%", "OTk5OTk5OTk5OTk5OTk5OTk5OTk5", "ÿ"])
async def test_an_unknown_cursor_is_refused(farm: Farm, cursor: str) -> None:
    policy_id = await farm.policy()
    with pytest.raises(Invalid) as refusal:
        await farm.opilio.insights.history(policy_id, cursor=cursor)
    assert refusal.value.field == "cursor"


async def test_no_such_policy(farm: Farm) -> None:
    with pytest.raises(NotFound):
        await farm.opilio.insights.history(uuid4())
