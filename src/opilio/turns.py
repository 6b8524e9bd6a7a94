"""Turns among the processes of one machine, so that requests which reach several processes still share statements.

A turn is a lock on two bytes of a file that all of them open. The system gives the lock back when a process dies, and where nobody else
wants it, it costs a few microseconds. Turns save work and protect nothing: a process that cannot have one soon goes on without it.
docs/adr/0036-turns.md
"""

import asyncio
import fcntl
import os
import threading
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from queue import SimpleQueue

_THREADS = 4
_PLACES = 1 << 20


class Turns:
    """The turns of one file, for processes that each open it once."""

    def __init__(self, file: Path, patience: float = 0.25) -> None:
        """After so many seconds a turn is not waited for any longer."""
        self.patience = patience
        self._file = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._to_lock: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._threads = 0

    def of(self, *what: object) -> "Turn":
        """Two processes that ask for the same are never at it together, as far as patience goes."""
        return Turn(self, 2 * (zlib.crc32(repr(what).encode()) % _PLACES))

    def lock(self, place: int, *, wait: bool = True) -> bool:
        """Takes the second byte, and holds the first only while it tries.

        So whoever waits comes before a process that gives its turn back and wants the next one at once: that one finds the first byte taken.
        """
        mode = fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB
        try:
            fcntl.lockf(self._file, mode, 1, place)
            try:
                fcntl.lockf(self._file, mode, 1, place + 1)
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, place)
        except OSError:  # another has it, or the system sees two processes wait for each other
            return False
        return True

    def unlock(self, place: int) -> None:
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, place + 1)

    def wait(self, place: int) -> "asyncio.Future[bool]":
        """Locks in a thread; a thread that still waits does not keep the process from ending."""
        loop = asyncio.get_running_loop()
        locked: asyncio.Future[bool] = loop.create_future()

        def lock() -> None:
            result = self.lock(place)
            with suppress(RuntimeError):  # the loop has ended, and so will the process
                loop.call_soon_threadsafe(locked.set_result, result)

        if self._threads < _THREADS:
            self._threads += 1
            threading.Thread(target=self._work, name="turns", daemon=True).start()
        self._to_lock.put(lock)
        return locked

    def _work(self) -> None:
        while True:
            self._to_lock.get()()


class Turn:
    """A turn at one kind of work."""

    def __init__(self, turns: Turns, place: int) -> None:
        self._turns = turns
        self._place = place
        self._here = asyncio.Lock()  # the system's lock does not keep a process from itself
        self._late: asyncio.Future[bool] | None = None

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Waits for the turn, as far as patience goes, and has it meanwhile."""
        async with self._here:
            locked = await self._take()
            try:
                yield
            finally:
                if locked:
                    self._turns.unlock(self._place)

    async def _take(self) -> bool:
        if self._late is not None and not self._late.done():
            return False  # another process is stuck in its turn: nobody waits for it twice
        if self._turns.lock(self._place, wait=False):
            return True
        waiting = self._turns.wait(self._place)
        try:
            await asyncio.wait([waiting], timeout=self._turns.patience)
        except asyncio.CancelledError:
            waiting.add_done_callback(self._give_back)
            raise
        if waiting.done():
            return waiting.result()
        self._late = waiting
        waiting.add_done_callback(self._give_back)
        return False

    def _give_back(self, late: "asyncio.Future[bool]") -> None:
        if late.result():
            self._turns.unlock(self._place)
