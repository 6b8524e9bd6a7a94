"""Expensive answers: computed once for all who ask within a few seconds."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class SingleFlight:
    """One per process. Concurrent callers share one computation; later ones get its result while it is fresh."""

    def __init__(self, *, seconds: float = 10.0, most: int = 200) -> None:
        self._seconds = seconds
        self._most = most
        self._found: dict[Hashable, tuple[float, asyncio.Task[Any]]] = {}

    async def get(self, key: Hashable, find: Callable[[], Awaitable[T]]) -> T:
        self._drop_old()
        if key not in self._found:
            self._found[key] = (time.monotonic() + self._seconds, asyncio.ensure_future(_run(find)))
        task: asyncio.Task[T] = self._found[key][1]
        try:
            # A viewer who leaves must not take the answer from the others.
            return await asyncio.shield(task)
        except Exception:
            self._found.pop(key, None)
            raise

    def _drop_old(self) -> None:
        now = time.monotonic()
        for key, (until, task) in list(self._found.items()):
            if task.done() and (until < now or len(self._found) > self._most):
                del self._found[key]

    def forget(self) -> None:
        self._found.clear()


async def _run(find: Callable[[], Awaitable[T]]) -> T:
    return await find()
