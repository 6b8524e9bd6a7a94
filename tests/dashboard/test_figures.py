"""The figures behind the charts, and the problems in words."""

from datetime import UTC, datetime, timedelta

import pytest

from opilio.contracts.policies import PolicyInput
from opilio.crawl.job import TRANSITIONS, State
from opilio.insights.dashboard import PolicyFilter, QueueState, Span, SystemStatus
from opilio.insights.rollup import Rollup
from opilio.runtime.bootstrap import Opilio
from opilio.web.dashboard.diagram import draw
from opilio.web.dashboard.i18n import Locale
from opilio.web.dashboard.problems import problems

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
# Two minutes ago: the last minute is counted only when it has been over for five seconds.
ENDED = """insert into job_archive (job_id, policy_id, host_id, queue, status, priority, base_priority, retry_count, max_retries, run_at,
  created_at, created_by, finished_at, finished_by, reason)
select opilio_uuid7(), opilio_uuid7(), 1, 'http', s, 50, 50, r, 3, now(), now(), 'test', date_trunc('minute', now()) - age, 'test', 'test'
from (values ('done', 0, interval '2 minutes'), ('done', 2, interval '2 minutes'), ('failed', 9, interval '2 minutes'),
             ('expired', 0, interval '90 minutes')) x(s, r, age)"""
CRAWLED = """insert into result (result_id, job_id, policy_id, bot_id, crawl_duration, crawled_at)
select opilio_uuid7(), opilio_uuid7(), opilio_uuid7(), 'bot', d, date_trunc('minute', now()) - interval '2 minutes'
from unnest(array[0.2, 0.4, 70]::float8[]) d"""


async def test_a_minute_is_counted_once_however_often_it_is_counted(opilio: Opilio) -> None:
    async with opilio.database.session() as session:
        await session.connection.execute(ENDED)
        await session.connection.execute(CRAWLED)
    rollup = Rollup(opilio.database)
    assert await rollup.run_once() == 24 * 60
    await rollup.run_once()
    day, hour = (await opilio.figures.system_status()).day, (await opilio.figures.system_status()).hour
    assert (day.done, day.failed, day.expired) == (2, 1, 1)
    assert (hour.done, hour.failed, hour.expired) == (2, 1, 0)
    assert hour.mean_seconds == pytest.approx(70.6 / 3)
    found = await opilio.figures.histograms("1h")
    assert found["retries"] == {"0": 1, "1": 0, "2": 1, "3": 0, "4": 0, "5+": 1}
    assert list(found["durations"].values()) == [2, 0, 0, 0, 0, 0, 0, 1]


async def test_missing_data_is_not_invented(opilio: Opilio) -> None:
    await Rollup(opilio.database).run_once()
    seen = [row["pending"] for row in await opilio.figures.series("1h")]
    # The minute may have changed since it was counted; then its row is the last but one.
    assert [pending for pending in seen if pending is not None] == [0]
    assert 0 in seen[-2:]


def quiet(**more: object) -> SystemStatus:
    nothing = Span(done=0, failed=0, expired=0, crawls=0, seconds=0, minutes=60)
    fields = {
        "at": NOW, "pending": 0, "locked": 0, "exact": True, "overrun": 0, "due": 0, "oldest_due": 0, "oldest_waiting": 0,
        "bots_alive": 0, "bots": 0, "hosts_cooling": 0, "outbox": 0, "oldest_outbox": 0, "webhooks": 0, "dead_letters": 0, "projects": 0,
        "any_policy": True, "any_result": True, "price_changes": 0, "last_minute": {}, "hour": nothing, "day": nothing, "queues": [], "cooling": [],
        "troubled_webhooks": [], "error_codes": {},
    }  # fmt: skip
    return SystemStatus(**(fields | more))


def test_a_quiet_herd_has_no_problems() -> None:
    assert problems(quiet(), Locale("en")) == []


def test_no_bot_in_words_in_both_languages() -> None:
    queue = QueueState(queue="js", waiting=40, bot_seen_at=NOW - timedelta(minutes=12))
    system_status = quiet(queues=[queue])
    assert problems(system_status, Locale("en"))[0].text == "No js bot for 12 min: 40 jobs waiting"
    assert (
        problems(system_status, Locale("vi"))[0].text
        == "Không có bot js trong 12 phút: 40 công việc đang chờ"
    )


def test_a_few_failures_are_no_problem_and_many_are() -> None:
    few = Span(done=3, failed=2, expired=0, crawls=0, seconds=0, minutes=60)
    many = Span(done=50, failed=30, expired=20, crawls=0, seconds=0, minutes=60)
    assert problems(quiet(hour=few), Locale("en")) == []
    [problem] = problems(quiet(hour=many, error_codes={"TIMEOUT": 30}), Locale("en"))
    assert problem.text == "50% of crawls failed in the last hour"
    assert "TIMEOUT (30)" in problem.detail


def test_what_stops_work_comes_first() -> None:
    system_status = quiet(outbox=5, oldest_outbox=300, due=9, oldest_due=600)
    assert [problem.bad for problem in problems(system_status, Locale("en"))] == [True, False]


def test_the_drawing_is_the_table() -> None:
    diagram = draw("locked", [(None, "pending"), ("pending", "locked")])
    assert {node.state for node in diagram.nodes} == set(State)
    drawn = sorted(cause for edge in diagram.edges for cause in edge.causes.split(", "))
    assert drawn == sorted(str(cause) for _, cause in TRANSITIONS)
    assert [node.state for node in diagram.nodes if node.now] == ["locked"]
    assert [edge.causes for edge in diagram.edges if edge.taken] == ["pull"]
    for node in diagram.nodes:
        assert 0 <= node.x <= diagram.width - node.width
        assert 0 <= node.y <= diagram.height - node.height


async def test_the_order_by_next_run_is_the_same_with_and_without_a_filter(opilio: Opilio) -> None:
    """It is read in two ways; deleted policies are in neither, those that are off in both."""
    ids = [
        await opilio.policies.create(
            PolicyInput(url=f"https://a.example/{n}", next_run_at=NOW + timedelta(hours=(n * 7) % 10))
        )
        for n in range(10)
    ]
    await opilio.policies.delete(ids[:2])
    await opilio.policies.set_enabled(ids[2:4], enabled=False)
    found = [
        [row["id"] for row in await opilio.figures.policies(chosen, sort="next", page=1, size=50)]
        for chosen in (PolicyFilter(), PolicyFilter(host="a.example"))
    ]
    assert found[0] == found[1]
    assert set(found[0]) == set(ids[2:])
