"""Keeps child processes alive, and stops them together."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from opilio.backoff import doubling
from opilio.runtime.processes import PARENT

_log = structlog.get_logger(__name__)
_FIRST_PAUSE, _LONGEST_PAUSE = timedelta(seconds=0.5), timedelta(seconds=30)
_SETTLED_SECONDS = 30.0
_GRACE_SECONDS = 6.0


@dataclass(frozen=True, slots=True)
class Command:
    """A process to run beside others: its name, its words, and what its environment adds to ours."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


class Supervisor:
    """A child that ends is started again, later each time; none outlives this process."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.deaths: dict[str, int] = {}
        self.pids: dict[str, int] = {}

    def start(self, command: Command) -> None:
        self.deaths[command.name] = 0
        self._tasks[command.name] = asyncio.create_task(self._keep(command), name=command.name)

    async def stop(self) -> None:
        """Asks all to end, waits a moment, then insists."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()

    async def _keep(self, command: Command) -> None:
        failures = 0
        while True:
            born = time.monotonic()
            code = await self._run(command)
            failures = 1 if time.monotonic() - born > _SETTLED_SECONDS else failures + 1
            self.deaths[command.name] += 1
            pause = doubling(_FIRST_PAUSE, failures, _LONGEST_PAUSE).total_seconds()
            _log.error("child.ended", child=command.name, code=code, again_in=pause)
            await asyncio.sleep(pause)

    async def _run(self, command: Command) -> int:
        """One life of a child; cancelled, it ends the child first."""
        process = await asyncio.create_subprocess_exec(
            *command.argv,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),  # our own stdout is for our own data
            start_new_session=True,  # Ctrl-C is for this process; it tells the children in order
            env={**os.environ, **command.env, PARENT: str(os.getpid())},
        )
        self.pids[command.name] = process.pid
        try:
            return await process.wait()
        except asyncio.CancelledError:
            await _end(process)
            raise
        finally:
            self.pids.pop(command.name, None)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(_GRACE_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
