"""Many callers, one statement: requests that arrive while a batch runs form the next batch.

No timer is involved, so a lone caller does not wait; under load a batch grows to what arrived during the last one. A second batch
runs beside the first only if it is large enough: two small ones cost more than one of both. Where very much waits, batches are larger, but leave
half of it to the other: one that takes everything would leave the other nothing to do. Where several processes serve the same requests, their
small batches take turns, so that each has what arrived during those of the others, too.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Generic, TypeVar

from opilio.turns import Turn

Item = TypeVar("Item")
Result = TypeVar("Result")


class QueueFullError(Exception):
    """More is waiting than the coalescer takes; ask again later."""


class Coalescer(Generic[Item, Result]):
    """Runs `work` on lists of items; each caller gets the results of its own items, in order.

    A batch that fails is run again item by item, so that a bad item fails alone: `on_error` makes its result.
    """

    def __init__(
        self,
        work: Callable[[list[Item]], Awaitable[Sequence[Result]]],
        *,
        most: int = 200,
        most_of_many: int | None = None,
        workers: int = 1,
        least_beside: int = 1,
        weight: Callable[[Item], int] = lambda _: 1,
        most_waiting: int | None = None,
        on_error: Callable[[Item, Exception], Result] | None = None,
        may_be_one_item: Callable[[Exception], bool] = lambda _: True,
        on_abandoned: Callable[[Item, Result], None] | None = None,
        turn: Turn | None = None,
    ) -> None:
        """`on_error` may raise instead of making a result; `on_abandoned` gets results whose caller has left.

        Up to `workers` batches run side by side, each but the first once so much waits as `least_beside` says. A batch is larger than
        `most`, up to `most_of_many`, if it is no more than half of what waits. One that is not worth a place beside others waits for its
        `turn`, if there is one.
        """
        self._work = work
        self._most = most
        self._most_of_many = most_of_many or most
        self._workers = workers
        self._least_beside = least_beside
        self._weight = weight
        self._most_waiting = most_waiting
        self._on_error = on_error
        self._may_be_one_item = may_be_one_item
        self._on_abandoned = on_abandoned
        self._turn = turn
        self._waiting: deque[_Request[Item, Result]] = deque()
        self._waiting_weight = 0
        self._busy = 0
        self._tasks: set[asyncio.Task[None]] = set()  # asyncio itself keeps only weak references

    async def run(self, item: Item) -> Result:
        return (await self.run_all([item]))[0]

    async def run_all(self, items: Sequence[Item]) -> Sequence[Result]:
        """The items stay together in one batch."""
        if not items:
            return []
        request: _Request[Item, Result] = _Request(list(items), sum(map(self._weight, items)))
        if self._most_waiting is not None and self._waiting_weight + request.weight > self._most_waiting:
            raise QueueFullError
        self._waiting.append(request)
        self._waiting_weight += request.weight
        if not self._busy or (self._busy < self._workers and self._waiting_weight >= self._least_beside):
            self._busy += 1
            task = asyncio.create_task(self._drain())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await request.future

    def _next_batch(self) -> "list[_Request[Item, Result]]":
        batch: list[_Request[Item, Result]] = []
        size = 0
        most = max(self._most, min(self._most_of_many, self._waiting_weight // 2))
        while self._waiting and (not batch or size + self._waiting[0].weight <= most):
            request = self._waiting.popleft()
            self._waiting_weight -= request.weight
            if request.future.done():  # the caller left before its turn
                continue
            batch.append(request)
            size += request.weight
        return batch

    async def _drain(self) -> None:
        while self._waiting:
            async with self._its_turn():
                if batch := self._next_batch():
                    await self._run_batch(batch)
        self._busy -= 1  # no await since the empty check, so that no request is missed

    def _its_turn(self) -> AbstractAsyncContextManager[None]:
        if self._turn is None or self._waiting_weight >= self._least_beside:
            return nullcontext()
        return self._turn.taken()

    async def _run_batch(self, batch: "list[_Request[Item, Result]]") -> None:
        items = [item for request in batch for item in request.items]
        try:
            results = await self._run_items(items)
        except Exception as error:  # noqa: BLE001 - the callers get it
            await self._run_apart(batch, error)
            return
        start = 0
        for request in batch:
            end = start + len(request.items)
            self._answer(request, results[start:end])
            start = end

    async def _run_items(self, items: list[Item]) -> list[Result]:
        results = list(await self._work(items))
        if len(results) != len(items):
            raise RuntimeError(f"{len(items)} items got {len(results)} results")
        return results

    async def _run_apart(self, batch: "list[_Request[Item, Result]]", error: Exception) -> None:
        if self._on_error is None or not self._may_be_one_item(error):
            for request in batch:
                request.fail(error)
            return
        only_one = len(batch) == 1 and len(batch[0].items) == 1
        for request in batch:
            try:
                results = [await self._run_alone(item, error if only_one else None) for item in request.items]
            except Exception as failure:  # noqa: BLE001 - this caller gets it, the others do not
                request.fail(failure)
            else:
                self._answer(request, results)

    async def _run_alone(self, item: Item, error: Exception | None) -> Result:
        assert self._on_error is not None
        if error is None:
            try:
                return (await self._run_items([item]))[0]
            except Exception as own:  # noqa: BLE001 - made into a result, or raised by on_error
                error = own
        return self._on_error(item, error)

    def _answer(self, request: "_Request[Item, Result]", results: list[Result]) -> None:
        if not request.future.done():
            request.future.set_result(results)
        elif self._on_abandoned is not None:
            for item, result in zip(request.items, results, strict=True):
                self._on_abandoned(item, result)


class _Request(Generic[Item, Result]):
    """What one caller asked for, and where its results go."""

    def __init__(self, items: list[Item], weight: int) -> None:
        self.items = items
        self.weight = weight
        self.future: asyncio.Future[list[Result]] = asyncio.get_running_loop().create_future()

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)
