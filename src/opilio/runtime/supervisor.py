"""Starts child processes, restarts those that end, and stops them together."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import IO

from opilio.backoff import doubling
from opilio.logs import get_logger
from opilio.runtime.processes import PARENT

_log = get_logger(__name__)
_FIRST_PAUSE, _LONGEST_PAUSE = timedelta(seconds=0.5), timedelta(seconds=30)
_SETTLED_SECONDS = 30.0
_LEAST_GRACE_SECONDS = 1.0
# Runs before the child's program, so that any program ends with its parent: the setting survives `exec`. 1 is
# PR_SET_PDEATHSIG, 9 is SIGKILL; a parent that has already ended would not be noticed.
_DIE_WITH_PARENT = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9);"
    "os.getppid() == int(sys.argv[1]) or os._exit(1); os.execvp(sys.argv[2], sys.argv[2:])"
)


@dataclass(frozen=True, slots=True)
class Command:
    """A child process: its name, arguments, additions to the environment, a file for its log if not stderr, its stdin."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    log: Path | None = None
    line: asyncio.Future[str] | None = None  # what it reads from stdin, written when it is known


class Supervisor:
    """Restarts children that end, with growing pauses; no child outlives this process."""

    def __init__(self, *, grace_seconds: float = 6.0) -> None:
        self._grace = grace_seconds
        self._hurry = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._deadline = 0.0
        self.deaths: dict[str, int] = {}
        self.pids: dict[str, int] = {}

    def start(self, command: Command) -> None:
        self.deaths[command.name] = 0
        self._tasks[command.name] = asyncio.create_task(self._keep(command), name=command.name)

    def hurry(self) -> None:
        """Kills the children that are still being waited for."""
        self._hurry.set()

    async def stop(self, names: Sequence[str] | None = None) -> None:
        """Stops the last started first, so that a bot can still release its jobs; kills what does not stop in time."""
        self._deadline = time.monotonic() + self._grace
        for name in reversed(names if names is not None else list(self._tasks)):
            if task := self._tasks.pop(name, None):
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _keep(self, command: Command) -> None:
        failures = 0
        while True:
            born = time.monotonic()
            code = await self._run(command)
            failures = 1 if time.monotonic() - born > _SETTLED_SECONDS else failures + 1
            self.deaths[command.name] += 1
            pause = doubling(_FIRST_PAUSE, failures, _LONGEST_PAUSE).total_seconds()
            more = {"log": str(command.log)} if command.log else {}
            _log.error("child.exited", child=command.name, code=code, restart_in=pause, **more)
            await asyncio.sleep(pause)

    async def _run(self, command: Command) -> int:
        """Runs a child until it ends; on cancellation the child is stopped first."""
        with _log_file(command) as errors:
            process = await asyncio.create_subprocess_exec(
                *_guarded(command.argv),
                stdin=subprocess.DEVNULL if command.line is None else subprocess.PIPE,
                stdout=subprocess.DEVNULL,  # stdout is for this command's output; children log to stderr
                stderr=errors,
                start_new_session=True,  # Ctrl-C goes to this process, which stops the children in order
                env={**os.environ, **command.env, PARENT: str(os.getpid())},
            )
        self.pids[command.name] = process.pid
        writing = asyncio.create_task(_write_line(process, command.line)) if command.line else None
        try:
            return await process.wait()
        except asyncio.CancelledError:
            grace = max(_LEAST_GRACE_SECONDS, self._deadline - time.monotonic())
            await _end(process, grace, self._hurry)
            raise
        finally:
            self.pids.pop(command.name, None)
            if writing:
                writing.cancel()


async def _write_line(process: asyncio.subprocess.Process, line: asyncio.Future[str]) -> None:
    """Writes a line to a child's stdin as soon as it is known; a child that has ended needs none."""
    text = await asyncio.shield(line)
    if process.stdin is not None:
        process.stdin.write(f"{text}\n".encode())
        with suppress(ConnectionError):
            await process.stdin.drain()
        process.stdin.close()


def _log_file(command: Command) -> AbstractContextManager[IO[bytes] | None]:
    """Where the child's log goes: None is this process's stderr."""
    return nullcontext() if command.log is None else command.log.open("ab")


def _guarded(argv: tuple[str, ...]) -> tuple[str, ...]:
    if sys.platform != "linux":
        return argv  # there `opilio` itself polls for its parent
    return (sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *argv)


async def _end(process: asyncio.subprocess.Process, grace: float, hurry: asyncio.Event) -> None:
    """Terminates, waits, then kills."""
    if process.returncode is not None:
        return
    process.terminate()
    exit_ = asyncio.ensure_future(process.wait())
    hurried = asyncio.ensure_future(hurry.wait())
    # Not `asyncio.timeout`: in a task that was cancelled, early 3.11 releases never raise its TimeoutError.
    await asyncio.wait([exit_, hurried], timeout=grace, return_when=asyncio.FIRST_COMPLETED)
    hurried.cancel()
    if not exit_.done():
        process.kill()
    await exit_
