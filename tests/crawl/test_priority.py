"""The rule engine: the same table in Python and in the scheduler's SQL."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as effort
from hypothesis import strategies as st

from opilio.adapters.postgres import Database
from opilio.clock import FixedClock
from opilio.crawl.priority import Bands, History, Rules, choose_queue, overdue, score
from opilio.crawl.schedule import Scheduler

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def history(**facts: object) -> History:
    return History(**({"importance": 50, "overdue": 1.0, "error_rate": 0.0, "hot": False} | facts))  # type: ignore[arg-type]


def test_it_works() -> None:
    scored = score(history(overdue=4, error_rate=0.95, hot=True), Rules())
    assert scored.priority == 50 + 10 - 10 + 20
    assert scored.reasons == (("importance", 50), ("overdue", 10), ("error_rate", -10), ("hot", 20))


@pytest.mark.parametrize(
    ("value", "points"), [(-1, 0), (1.99, 0), (2, 5), (3.9, 5), (4, 10), (8, 20), (1e300, 20)]
)
def test_a_value_on_the_edge_belongs_to_the_band_above(value: float, points: int) -> None:
    assert Rules().overdue(value) == points


def test_a_priority_stays_within_0_and_100() -> None:
    assert score(history(importance=100, hot=True), Rules()).priority == 100
    assert score(history(importance=0, error_rate=1), Rules()).priority == 0


@pytest.mark.parametrize(
    ("bands", "points"), [((), (1,)), ((1, 2), (1, 2)), ((2, 1), (1, 2, 3)), ((1, 1), (1, 2, 3))]
)
def test_a_table_that_makes_no_sense(bands: tuple[float, ...], points: tuple[int, ...]) -> None:
    with pytest.raises(ValueError):
        Bands(bands, points)


@pytest.mark.parametrize(
    ("queue", "config", "chosen"),
    [
        (None, {}, "http"),
        (None, {"js_required": True}, "js"),
        (None, {"js_required": "yes"}, "http"),
        (None, {"special": True, "js_required": True}, "special"),
        ("http", {"js_required": True}, "http"),
    ],
)
def test_the_queue_is_what_the_user_set_or_what_the_page_needs(
    queue: str | None, config: dict[str, object], chosen: str
) -> None:
    assert choose_queue(queue, config) == chosen


BANDS = st.lists(
    st.floats(-10, 1e6, allow_nan=False).map(lambda x: round(x, 3)), min_size=1, max_size=4, unique=True
).flatmap(
    lambda bands: st.builds(
        Bands,
        st.just(tuple(sorted(bands))),
        st.tuples(*[st.integers(-200, 200)] * (len(bands) + 1)),
    )
)
Facts = tuple[int, float, int | None, float, bool]
RULES = st.builds(Rules, overdue=BANDS, error_rate=BANDS, hot=BANDS)
FACTS = st.tuples(
    st.integers(0, 100),
    st.sampled_from([5e-324, 0.001, 0.25, 1, 6, 24, 168, 87840]),
    st.one_of(st.none(), st.integers(-3600, 10**9)),
    st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]),
    st.booleans(),
)


@pytest.fixture
async def one_policy(database: Database) -> Database:
    async with database.session() as session:
        await session.connection.execute("""
            with h as (insert into host (name) values ('a.example') returning host_id),
            p as (insert into policy (url, host_id, frequency_hours, priority, max_retries, retry_backoff_minutes,
                                      timeout_minutes, job_queue)
                  select 'https://a.example/', host_id, 24, 50, 3, 5, 10, 'http' from h returning policy_id)
            insert into policy_state (policy_id, enabled, next_run_at) select policy_id, true, now() from p""")
    return database


async def priority_in_sql(database: Database, rules: Rules, facts: Facts) -> int:
    importance, hours, age, error_rate, hot = facts
    success = None if age is None else NOW - timedelta(seconds=age)
    async with database.session() as session:
        await session.connection.execute(
            "update policy set priority = $1, frequency_hours = $2, hot = $3", importance, hours, hot
        )
        await session.connection.execute(
            "update policy_state set last_success_at = $1, error_rate = $2", success, error_rate
        )
        await session.connection.execute("delete from job_active")
        await session.connection.execute(
            "insert into policy_due select policy_id, $1 from policy on conflict do nothing", NOW
        )
    made = await Scheduler(database, rules=rules, clock=FixedClock(NOW)).create_due()
    assert made.created == 1
    async with database.session() as session:
        priority: int = await session.connection.fetchval("select priority from job_active")
    return priority


@effort(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rules=RULES, facts=FACTS)
async def test_python_and_sql_agree(one_policy: Database, rules: Rules, facts: Facts) -> None:
    importance, hours, age, error_rate, hot = facts
    past = History(importance, overdue((age or 0), hours), error_rate, hot)
    assert await priority_in_sql(one_policy, rules, facts) == score(past, rules).priority
