"""A pool of processes for CPU-bound work; they end with their parent, and a broken pool is replaced."""

import multiprocessing
import os
import signal
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from typing import ParamSpec, TypeVar

from opilio.logs import get_logger
from opilio.runtime.processes import die_with_parent

P = ParamSpec("P")
T = TypeVar("T")
_log = get_logger(__name__)
# Not forked: a child could inherit a lock that another thread of the parent holds.
_CONTEXT = multiprocessing.get_context("spawn")


class ProcessPool(Executor):
    """An executor; work of a process that dies fails with `BrokenExecutor`, later work gets a new pool."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool = self._opened()

    def _opened(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self._count, _CONTEXT, initializer=_begin, initargs=(os.getpid(),))

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        try:
            return self._pool.submit(fn, *args, **kwargs)
        except BrokenExecutor:
            _log.warning("workers.replaced", count=self._count)
            self._pool.shutdown(wait=False)
            self._pool = self._opened()
            return self._pool.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._pool.shutdown(wait, cancel_futures=cancel_futures)


def _begin(parent: int) -> None:
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C is handled by the parent, which waits for work under way
    die_with_parent(parent)
