"""What is lost comes back: Redis flushed or behind, counters that are wrong."""

import pytest
from redis.asyncio import Redis

from tests.collector.samples import analyzed, v2
from tests.collector.test_example import ANALYZED, CRAWLED, FINAL
from tests.collector.world import until

# What Redis loses can only be lost where the state is in Redis; in PostgreSQL it is the counters themselves.
in_redis = pytest.mark.parametrize("world", ["real"], indirect=True)


@pytest.fixture
async def redis(world):
    client = Redis.from_url(world.redis_url, decode_responses=True)
    yield client
    await client.aclose()


@in_redis
async def test_redis_may_lose_everything_while_results_keep_coming(world, redis):
    await world.create()
    await world.reaches(status="PROCESSING")
    for number, (body, _) in enumerate([*CRAWLED, *ANALYZED]):
        key = f"crawler.{body['platform']}.result" if "platform" in body else "analytics.result"
        await world.result(body, key)
        if number in (1, 5):
            await redis.flushall()
            assert (await world.state())["tasks_total"] == 4  # never an unknown project
    await world.reaches(status="DONE")
    assert await world.state() == FINAL
    assert await redis.hgetall("opilio:project:proj123") == {k: str(v) for k, v in FINAL.items()}
    assert await world.bus.depth("collector.results.dlq") == 0


@in_redis
async def test_a_finished_project_that_redis_lost_comes_back_without_being_asked_for(world, redis):
    await world.create(brand_keywords=["iphone"], platforms=["tiktok"])
    await world.result(v2(found=0))
    state = await world.reaches(status="DONE")
    await redis.flushall()

    async def back():
        return await redis.hgetall("opilio:project:proj123")

    assert await until(back) == {name: str(value) for name, value in state.items()}


async def test_reconcile_says_what_differed_and_repairs_it(world):
    await world.create(brand_keywords=["iphone"], platforms=["tiktok"])
    await world.result(v2(found=50))
    await world.analyzed({**analyzed(1, 30, 0), "platform": "tiktok"})
    right = await world.reaches(tasks_done=1, analyze_done=30)
    projects = world.collector.projects
    assert await projects.reconcile("proj123") == []
    await world.rows("update project_state set analyze_done = 49, items_actual = 7")
    found = {(one.where, one.field): (one.was, one.now) for one in await projects.reconcile("proj123")}
    assert found["counters", "analyze_done"] == (49, 30)
    assert found["counters", "items_actual"] == (7, 50)
    assert await world.state() == right
    assert await projects.reconcile() == []


@in_redis
async def test_reconcile_repairs_a_cache_that_was_changed_by_hand(world, redis):
    await world.create(brand_keywords=["iphone"], platforms=["tiktok"])
    await world.result(v2(found=50))
    await world.reaches(tasks_done=1)
    await redis.hset("opilio:project:proj123", "tasks_done", 9)
    [one] = await world.collector.projects.reconcile()
    assert (one.where, one.field, one.was, one.now) == ("cache", "tasks_done", 9, 1)
    assert (await world.state())["tasks_done"] == 1
