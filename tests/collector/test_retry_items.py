"""Posts that could not be crawled are sent out again, and bring what was missing without changing the counters."""

import pytest

from opilio.adapters.buckets import Buckets
from opilio.analytics.processing import BatchProcessor
from opilio.analytics.store import BatchStore
from opilio.collector.retry_items import is_retry
from opilio.errors import NotFound
from tests.analytics.batches import body, event, failed, post
from tests.collector.samples import analyzed, v2
from tests.collector.world import until

JOB = "proj123-brand-0"


@pytest.fixture
async def analyse(world):
    """Analyses a batch of proj123, as the analytics role does."""
    buckets = Buckets("memory://")
    processor = BatchProcessor(BatchStore(world.db), buckets)

    async def analyse(name, *items, **payload):
        await buckets.put("r", f"{name}.json", body(*items))
        about = {"project_id": "proj123", "job_id": JOB, **payload}
        return await processor.process(event(f"r/{name}.json", name, **about))

    return analyse


async def test_it_works(world, analyse):
    await world.create(brand_keywords=["iphone"], platforms=["tiktok"])
    await world.take_tasks("tiktok")
    await world.next_task()
    await world.result(v2(JOB, "tiktok", found=3, failed=2))
    without_link = failed("3", "NETWORK_ERROR")
    del without_link["meta"]["permalink"]
    await analyse("1", post("1"), failed("2", "TIMEOUT"), without_link, failed("4", "CONTENT_REMOVED"))
    await world.analyzed({**analyzed(1, 1, 0), "job_id": f"{JOB}-analyze-batch-1", "platform": "tiktok"})
    done = await world.reaches(status="DONE")

    sent = await world.collector.projects.retry_errors("proj123", by="test")
    assert (sent.posts, sent.without_link, sent.more) == (1, 1, False)
    task, message = await world.next_task()
    assert (task["task_type"], task["job_id"], task["limit"]) == ("crawl_links", sent.job_id, 1)
    assert (task["payload"]["links"], task["payload"]["content_ids"]) == (["https://tiktok.test/2"], ["2"])
    assert message.headers["x-trace-id"]
    again = await world.collector.projects.retry_errors("proj123", by="test")
    assert (again.posts, again.job_id) == (0, None)  # it is on its way

    await world.result({**v2(sent.job_id, "tiktok", found=1), "task_type": "crawl_links"})
    await analyse("2", post("2"), job_id=sent.job_id, keyword=None, task_type="crawl_links")
    await world.analyzed(
        {**analyzed(1, 1, 0), "job_id": f"{sent.job_id}-analyze-batch-1", "platform": "tiktok"}
    )
    [row] = await world.rows(
        "select fetch_status, keyword_source, keyword_role from post_analytics where id = '2'"
    )
    assert tuple(row) == ("success", "VinFast VF8", "brand")
    # A message behind the others shows that they were processed.
    await world.create("other", brand_keywords=["iphone"], platforms=["tiktok"])
    await world.result(v2("other-brand-0", "tiktok", found=0))
    await world.reaches("other", status="DONE")
    assert await world.state() == done
    assert await world.bus.depth("collector.results.dlq") == 0
    assert await world.collector.projects.reconcile("proj123") == []


async def test_a_post_that_fails_again_is_offered_again(world, analyse):
    await world.create(brand_keywords=["iphone"], platforms=["tiktok"])
    await analyse("1", failed("2", "TIMEOUT"))
    first = await world.collector.projects.retry_errors("proj123", by="test")
    await world.take_tasks("tiktok")
    assert first.posts == 1
    await world.result({**v2(first.job_id, "tiktok", found=1, failed=1), "task_type": "crawl_links"})
    await analyse("2", failed("2", "RATE_LIMITED"), job_id=first.job_id, keyword=None)

    async def answered():
        return await world.rows("select 1 from task where job_id = $1 and state <> 'open'", first.job_id)

    await until(answered)
    second = await world.collector.projects.retry_errors("proj123", by="test")
    assert (second.posts, second.job_id != first.job_id) == (1, True)


async def test_an_unknown_project_is_refused(world):
    with pytest.raises(NotFound, match="there is no project nobody"):
        await world.collector.projects.retry_errors("nobody", by="test")


@pytest.mark.parametrize(
    ("project_id", "job_id", "expected"),
    [
        ("p", "p-retry-17", True),
        ("p", "p-brand-0", False),
        ("p", "p-retry-1-brand-0", False),  # a task of the project p-retry-1
        ("p-retry-1", "p-retry-1-retry-2", True),
        ("q", "p-retry-17", False),
    ],
)
def test_the_name_contains_the_retry(project_id, job_id, expected):
    assert is_retry(project_id, job_id) is expected
