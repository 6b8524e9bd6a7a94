"""Many callers, one statement: what is asked while a batch is under way forms the next batch.

No timer is involved, so a lone caller waits for nothing; under load a batch grows to what came in
during the last one.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Ask = TypeVar("Ask")
Answer = TypeVar("Answer")


class Coalescer(Generic[Ask, Answer]):
    """Runs `work` on lists of asks; each caller gets its own answer, in the order of the list."""

    def __init__(
        self,
        work: Callable[[list[Ask]], Awaitable[Sequence[Answer]]],
        *,
        most: int = 200,
        workers: int = 1,
        weight: Callable[[Ask], int] = lambda _: 1,
    ) -> None:
        self._work = work
        self._most = most
        self._workers = workers
        self._weight = weight
        self._waiting: deque[tuple[Ask, asyncio.Future[Answer]]] = deque()
        self._busy = 0
        self._tasks: set[asyncio.Task[None]] = set()  # asyncio itself keeps only weak references

    async def ask(self, ask: Ask) -> Answer:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((ask, future))
        if self._busy < self._workers:
            self._busy += 1
            task = asyncio.create_task(self._drain())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await future

    def _next_batch(self) -> list[tuple[Ask, asyncio.Future[Answer]]]:
        batch: list[tuple[Ask, asyncio.Future[Answer]]] = []
        size = 0
        while self._waiting and (not batch or size + self._weight(self._waiting[0][0]) <= self._most):
            ask, future = self._waiting.popleft()
            if future.done():  # the caller went away before its turn
                continue
            batch.append((ask, future))
            size += self._weight(ask)
        return batch

    async def _drain(self) -> None:
        while batch := self._next_batch():
            try:
                answers = await self._work([ask for ask, _ in batch])
                pairs = list(zip(batch, answers, strict=True))
            except Exception as error:  # noqa: BLE001 - every caller hears of it
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), answer in pairs:
                if not future.done():
                    future.set_result(answer)
        self._busy -= 1  # in the same breath as the empty look, so that no ask falls between
