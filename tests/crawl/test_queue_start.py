"""Under load a pull begins where the last one ended; nothing is passed over for more than a moment."""

import time
from typing import Any
from uuid import UUID

import pytest

from opilio.crawl import queue_start
from opilio.crawl.dead_rows import FirstJob
from opilio.crawl.queue_start import QueueStarts, head
from tests.crawl.farm import Farm
from tests.crawl.test_dead_rows import cost


def locked(count: int, *, last: int, priority: int = 50, queue: str = "http") -> list[Any]:
    """Rows of jobs in the order of their queue."""
    ids = range(last - count + 1, last + 1)
    return [{"queue": queue, "priority": priority, "job_id": UUID(int=number)} for number in ids]


def at(number: int, priority: int = 50, queue: str = "http") -> FirstJob:
    return FirstJob(queue, priority, UUID(int=number))


class Minute:
    """A clock that stands still until it is moved."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def minute(monkeypatch: pytest.MonkeyPatch) -> Minute:
    clock = Minute()
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


def pull(starts: QueueStarts, rows: list[Any], *queues: str) -> list[FirstJob]:
    begun = starts.begin(queues or ("http",))
    starts.passed(begun, rows)
    return begun.first


# ── the rule ─────────────────────────────────────────────────────────────────────────────────────


def test_under_load_a_pull_begins_where_the_last_one_ended(minute: Minute) -> None:
    starts = QueueStarts()
    assert pull(starts, locked(2_000, last=3_000)) == [head("http")]
    assert pull(starts, locked(100, last=3_100)) == [at(3_000)]
    assert pull(starts, locked(100, last=3_200)) == [at(3_100)]


def test_a_calm_fleet_always_begins_at_the_head(minute: Minute) -> None:
    starts = QueueStarts()
    for last in range(1_000, 1_020):
        assert pull(starts, locked(10, last=last)) == [head("http")]


def test_it_is_calm_again_a_second_after_the_last_large_pull(minute: Minute) -> None:
    starts = QueueStarts()
    pull(starts, locked(2_000, last=3_000))
    minute.now += 5
    assert pull(starts, locked(1, last=3_001)) == [head("http")]
    assert pull(starts, locked(1, last=3_002)) == [head("http")]


def test_a_moment_later_it_begins_at_the_head_again(minute: Minute) -> None:
    starts = QueueStarts()
    pull(starts, locked(2_000, last=3_000))
    minute.now += 0.04
    assert pull(starts, locked(100, last=3_100)) == [at(3_000)]
    minute.now += 0.02
    assert pull(starts, locked(100, last=200, priority=90)) == [head("http")]
    assert pull(starts, locked(100, last=300, priority=90)) == [at(200, priority=90)]


def test_where_work_has_arrived_it_begins_at_the_head_again(minute: Minute) -> None:
    starts = QueueStarts()
    pull(starts, locked(2_000, last=3_000))
    begun = starts.begin(["http"])
    starts.forget()
    starts.passed(begun, locked(100, last=3_100))  # began before, and cannot know
    assert pull(starts, []) == [head("http")]


def test_answers_may_overtake_each_other(minute: Minute) -> None:
    starts = QueueStarts()
    pull(starts, locked(2_000, last=3_000))
    early, late = starts.begin(["http"]), starts.begin(["http"])
    starts.passed(late, locked(100, last=400, priority=40))
    starts.passed(early, locked(100, last=3_100))
    assert pull(starts, []) == [at(400, priority=40)]


def test_each_queue_has_its_own_place(minute: Minute) -> None:
    starts = QueueStarts()
    rows = locked(2_000, last=3_000, priority=70) + locked(1, last=9, queue="js")
    assert pull(starts, rows, "http", "js") == [head("http"), head("js")]
    assert pull(starts, [], "http", "js") == [at(3_000, priority=70), at(9, queue="js")]
    assert pull(starts, [], "special") == [head("special")]


# ── pulls ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pull counts as one under load, and its place is kept until somebody looks again."""
    monkeypatch.setattr(queue_start, "_BUSY_JOBS", 0)
    monkeypatch.setattr(queue_start, "_KEEP_SECONDS", 1e9)


async def priorities(farm: Farm, most: int) -> list[int]:
    return [job.priority for job in await farm.pull(most=most)]


async def test_the_order_is_the_same(farm: Farm, busy: None) -> None:
    for priority in (90, 10, 50, 70, 50, 30):
        await farm.policy(priority=priority)
    await farm.due()
    assert [await priorities(farm, 2) for _ in range(4)] == [[90, 70], [50, 50], [30, 10], []]
    await farm.audit()


async def test_what_came_before_the_place_is_found_when_somebody_looks_again(farm: Farm, busy: None) -> None:
    for priority in (60, 50, 40):
        await farm.policy(priority=priority)
    await farm.due()
    assert await priorities(farm, 1) == [60]
    await farm.policy(priority=80)
    await farm.due()
    assert await priorities(farm, 1) == [50]
    farm.opilio.dispatcher.wake()
    assert await priorities(farm, 2) == [80, 40]


async def test_a_pull_that_finds_too_little_looks_everywhere(farm: Farm, busy: None) -> None:
    for priority in (60, 50):
        await farm.policy(priority=priority)
    await farm.due()
    assert await priorities(farm, 1) == [60]
    await farm.policy(priority=80)
    await farm.due()
    assert await priorities(farm, 5) == [50, 80], "in the order found: of two rounds"


async def test_a_job_that_is_given_back_is_handed_out_again(farm: Farm, busy: None) -> None:
    await farm.policies(3, priority=50)
    await farm.due()
    first, _ = await farm.pull(most=2)
    await farm.release(first)
    assert first.job_id in [job.job_id for job in await farm.pull(most=1)]
    await farm.audit()


async def test_a_pull_does_not_read_past_the_locked_jobs_again(
    farm: Farm, busy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    await farm.rows("alter table crawl_state set (autovacuum_enabled = off)")
    await farm.policies(4_000)
    await farm.due()
    for bot in range(38):
        assert len(await farm.pull(f"other-{bot}", most=100)) == 100
    from_place = await cost(farm, monkeypatch)
    farm.opilio.puller.look_again()
    from_head = await cost(farm, monkeypatch)
    lock = next(name for name in from_place if name.startswith("lock_jobs"))
    assert from_place[lock] + 15 < from_head[lock], (from_place, from_head)
