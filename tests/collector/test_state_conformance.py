"""What a store of project state promises, written once and run on Redis and on PostgreSQL."""

import msgspec
import pytest
from redis.asyncio import Redis

from opilio.collector.state.heal import Heal
from opilio.collector.state.postgres import PostgresState
from opilio.collector.state.protocol import VersionedState
from opilio.collector.state.redis import RedisState
from opilio.contracts.projects import ProjectState


async def write(database, store, project_id: str, version: int, **counters: int) -> VersionedState:
    """Commits a state, as the recorder of results does, and publishes it."""
    state = ProjectState(status="PROCESSING", tasks_total=4, items_expected=200, crawl_total=4, **counters)
    async with database.session() as session:
        await session.connection.execute(
            """insert into project_state (project_id, status, tasks_total, items_expected, crawl_total, items_actual, version)
               values ($1, 'PROCESSING', 4, 200, 4, $2, $3)
               on conflict (project_id) do update set items_actual = excluded.items_actual, version = excluded.version""",
            project_id,
            counters.get("items_actual", 0),
            version,
        )
    state.crawl_done = state.items_actual
    one = VersionedState(project_id, version, state)
    await store.publish([one])
    return one


async def test_a_state_has_all_fields(state, database):
    await write(database, state, "p", 1, items_actual=48)
    assert msgspec.to_builtins(await state.read("p")) == {
        "status": "PROCESSING", "tasks_total": 4, "tasks_done": 0, "tasks_errors": 0, "items_expected": 200,
        "items_actual": 48, "items_errors": 0, "analyze_total": 0, "analyze_done": 0, "analyze_errors": 0,
        "crawl_total": 4, "crawl_done": 48, "crawl_errors": 0,
    }  # fmt: skip
    assert await state.read("nobody") is None


async def test_an_older_version_changes_nothing(state, database):
    old = await write(database, state, "p", 1, items_actual=1)
    await write(database, state, "p", 2, items_actual=2)
    await state.publish([old])
    assert (await state.read("p")).items_actual == 2
    assert await state.versions(["p", "nobody"]) == {"p": 2}


async def test_healing_a_store_that_has_everything_does_nothing(state, database):
    await write(database, state, "p", 2, items_actual=2)
    assert await Heal(database, state).run_once() == {"rewritten": 0}


@pytest.fixture
async def redis(redis_url, database):
    client = Redis.from_url(redis_url, decode_responses=True)
    await client.flushdb()
    store = RedisState.connect(redis_url, database)
    yield store, client
    await store.close()
    await client.aclose()


async def test_a_lost_hash_is_read_from_postgresql_and_written_back(redis, database):
    store, client = redis
    await write(database, store, "p", 7, items_actual=5)
    await client.flushall()
    assert (await store.read("p")).items_actual == 5
    assert await client.hget("opilio:project:p", "items_actual") == "5"


async def test_a_lost_or_stale_hash_comes_back_by_itself(redis, database):
    store, client = redis
    for name in ("empty", "stale", "good"):
        await write(database, store, name, 7, items_actual=5)
    await client.delete("opilio:project:empty")
    await client.hset("opilio:project:stale", "items_actual", 4)
    await client.set("opilio:project:stale:version", 6)
    assert await Heal(database, store, page=1).run_once() == {"rewritten": 2}
    for name in ("empty", "stale", "good"):
        assert await client.hget(f"opilio:project:{name}", "items_actual") == "5"


async def test_without_redis_states_are_read_from_postgresql(database):
    store = RedisState.connect("redis://127.0.0.1:1/0", database)
    await write(database, PostgresState(database), "p", 1, items_actual=3)
    await store.publish([VersionedState("p", 1, ProjectState())])  # says so in the log, and goes on
    assert (await store.read("p")).items_actual == 3
    await store.close()
