"""Requests that share statements: what is put together, and what a failure costs the others."""

import asyncio

import pytest

from opilio.coalesce import Coalescer


class Work:
    """Notes its batches; each ends when it is told to."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gates: list[asyncio.Event] = []

    async def __call__(self, items: list[int]) -> list[int]:
        self.batches.append(items)
        self.gates.append(asyncio.Event())
        await self.gates[-1].wait()
        return [item * 10 for item in items]


async def begun(coalescer: Coalescer[int, int], *requests: list[int]) -> list[asyncio.Task]:
    tasks = [asyncio.create_task(coalescer.run_all(request)) for request in requests]
    for _ in range(5):  # each task begins in one turn of the loop, its batch in the next
        await asyncio.sleep(0)
    return tasks


async def test_what_arrives_while_a_batch_runs_is_the_next_batch() -> None:
    work = Work()
    coalescer = Coalescer(work)
    first = await begun(coalescer, [1])
    others = await begun(coalescer, [2, 3], [4])
    assert work.batches == [[1]]
    work.gates[0].set()
    assert await first[0] == [10]
    await asyncio.sleep(0)
    assert work.batches == [[1], [2, 3, 4]]
    work.gates[1].set()
    assert await asyncio.gather(*others) == [[20, 30], [40]]


async def test_a_second_batch_runs_beside_the_first_once_it_is_large_enough() -> None:
    work = Work()
    coalescer = Coalescer(work, workers=2, least_beside=3)
    tasks = await begun(coalescer, [1])
    tasks += await begun(coalescer, [2], [3])
    assert work.batches == [[1]]
    tasks += await begun(coalescer, [4])
    assert work.batches == [[1], [2, 3, 4]]
    tasks += await begun(coalescer, [5, 6, 7])
    assert work.batches == [[1], [2, 3, 4]], "no third worker"
    for gate in range(3):
        work.gates[gate].set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert await asyncio.gather(*tasks) == [[10], [20], [30], [40], [50, 60, 70]]


@pytest.mark.parametrize("bad", [1, 3])
async def test_a_bad_item_fails_alone(bad: int) -> None:
    async def work(items: list[int]) -> list[int]:
        if bad in items:
            raise ValueError("bad")
        return items

    coalescer: Coalescer[int, int] = Coalescer(work, on_error=lambda item, _: -item)
    tasks = await begun(coalescer, [1, 2], [3])
    assert await asyncio.gather(*tasks) == [[-1 if bad == 1 else 1, 2], [-3 if bad == 3 else 3]]


async def test_where_much_waits_batches_are_larger_but_leave_half_of_it() -> None:
    work = Work()
    coalescer = Coalescer(work, most=2, most_of_many=4)
    tasks = await begun(coalescer, [0])
    tasks += await begun(coalescer, *([number] for number in range(1, 13)))
    while not all(task.done() for task in tasks):
        work.gates[-1].set()
        await asyncio.sleep(0)
    assert [len(batch) for batch in work.batches] == [1, 4, 4, 2, 2]
    assert await asyncio.gather(*tasks) == [[number * 10] for number in range(13)]
