"""Processes for work that needs a processor: they end with whoever started them, and one that dies is replaced."""

import multiprocessing
import os
import signal
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from typing import ParamSpec, TypeVar

import structlog

from opilio.runtime.processes import die_with_parent

P = ParamSpec("P")
T = TypeVar("T")
_log = structlog.get_logger(__name__)
# Not forked: the parent has threads and an event loop, of which a copy could inherit a lock that nobody holds.
_CONTEXT = multiprocessing.get_context("spawn")


class ProcessPool(Executor):
    """A pool of processes. What one was doing when it died fails with `BrokenExecutor`; the next work finds a new pool."""

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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends us when work is done
    die_with_parent(parent)
