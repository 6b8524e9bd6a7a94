"""Many callers, one statement: requests that arrive while a batch runs form the next batch.

No timer is involved, so a lone caller does not wait; under load a batch grows to what arrived during the last one.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Coalescer(Generic[Item, Result]):
    """Runs `work` on lists of items; each caller gets the results of its own items, in order."""

    def __init__(
        self,
        work: Callable[[list[Item]], Awaitable[Sequence[Result]]],
        *,
        most: int = 200,
        workers: int = 1,
        weight: Callable[[Item], int] = lambda _: 1,
    ) -> None:
        self._work = work
        self._most = most
        self._workers = workers
        self._weight = weight
        self._waiting: deque[_Request[Item, Result]] = deque()
        self._busy = 0
        self._tasks: set[asyncio.Task[None]] = set()  # asyncio itself keeps only weak references

    async def run(self, item: Item) -> Result:
        return (await self.run_all([item]))[0]

    async def run_all(self, items: Sequence[Item]) -> Sequence[Result]:
        """The items stay together in one batch."""
        if not items:
            return []
        request = _Request[Item, Result](list(items), sum(map(self._weight, items)))
        self._waiting.append(request)
        if self._busy < self._workers:
            self._busy += 1
            task = asyncio.create_task(self._drain())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await request.future

    def _next_batch(self) -> "list[_Request[Item, Result]]":
        batch: list[_Request[Item, Result]] = []
        size = 0
        while self._waiting and (not batch or size + self._waiting[0].weight <= self._most):
            request = self._waiting.popleft()
            if request.future.done():  # the caller left before its turn
                continue
            batch.append(request)
            size += request.weight
        return batch

    async def _drain(self) -> None:
        while batch := self._next_batch():
            await self._run_batch(batch)
        self._busy -= 1  # no await since the empty check, so that no request is missed

    async def _run_batch(self, batch: "list[_Request[Item, Result]]") -> None:
        items = [item for request in batch for item in request.items]
        try:
            results = list(await self._work(items))
            if len(results) != len(items):
                raise RuntimeError(f"{len(items)} items got {len(results)} results")
        except Exception as error:  # noqa: BLE001 - every caller gets it
            for request in batch:
                request.fail(error)
            return
        start = 0
        for request in batch:
            end = start + len(request.items)
            request.succeed(results[start:end])
            start = end


class _Request(Generic[Item, Result]):
    """What one caller asked for, and where its results go."""

    def __init__(self, items: list[Item], weight: int) -> None:
        self.items = items
        self.weight = weight
        self.future: asyncio.Future[list[Result]] = asyncio.get_running_loop().create_future()

    def succeed(self, results: list[Result]) -> None:
        if not self.future.done():
            self.future.set_result(results)

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)
