"""Turns among processes: one at a time, in order, and never a reason to stand still."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from opilio.coalesce import Coalescer
from opilio.turns import Turn, Turns

LONG = 60.0
ANOTHER = """
import asyncio, sys
from pathlib import Path
from opilio.turns import Turns

async def main():
    turn = Turns(Path(sys.argv[1]), patience=60).of("work")
    taken = None
    for line in sys.stdin:
        for word in line.split():
            if word == "take":
                taken = turn.taken()
                await taken.__aenter__()
            else:
                await taken.__aexit__(None, None, None)
        print(line, end="", flush=True)

asyncio.run(main())
"""


class Another:
    """A process that takes turns and gives them back when it is told to."""

    def __init__(self, file: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", ANOTHER, str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, words: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{words}\n")
        self.process.stdin.flush()

    async def done(self, words: str) -> None:
        assert self.process.stdout
        async with asyncio.timeout(30):
            assert (await asyncio.to_thread(self.process.stdout.readline)).strip() == words

    async def does(self, words: str) -> None:
        self.tell(words)
        await self.done(words)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "turns"


@pytest.fixture
def another(file: Path) -> Iterator[Callable[[], Another]]:
    started: list[Another] = []

    def start() -> Another:
        started.append(Another(file))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.communicate()


@asynccontextmanager
async def wanted(turn: Turn) -> AsyncIterator[asyncio.Event]:
    """Wants the turn meanwhile; keeps it, once it is there, to the end."""
    there, end = asyncio.Event(), asyncio.Event()

    async def take() -> None:
        async with turn.taken():
            there.set()
            await end.wait()

    task = asyncio.create_task(take())
    await asyncio.sleep(0)
    try:
        yield there
    finally:
        end.set()
        await asyncio.wait_for(task, 30)


async def until_waiting(file: Path, processes: int) -> None:
    """So many processes wait for a lock of the file, as the system says."""
    number = str(file.stat().st_ino)
    async with asyncio.timeout(30):
        while True:
            lines = Path("/proc/locks").read_text().splitlines()
            if sum("->" in line and f":{number} " in line for line in lines) >= processes:
                return
            await asyncio.sleep(0.01)


async def test_one_process_at_a_time(file, another):
    other, turn = another(), Turns(file, LONG).of("work")
    await other.does("take")
    async with wanted(turn) as there:
        await until_waiting(file, 1)
        assert not there.is_set()
        await other.does("give")
        await asyncio.wait_for(there.wait(), 30)
        other.tell("take")
        await until_waiting(file, 1)
    await other.done("take")


async def test_who_waits_goes_before_one_that_wants_its_next_turn_at_once(file, another):
    other, turn = another(), Turns(file, LONG).of("work")
    await other.does("take")
    for _ in range(20):
        async with wanted(turn) as there:
            await until_waiting(file, 1)
            other.tell("give take")
            await asyncio.wait_for(there.wait(), 30)
            await until_waiting(file, 1)
        await other.done("give take")


async def test_three_processes_get_their_turns(file, another):
    first, second, turn = another(), another(), Turns(file, LONG).of("work")
    await first.does("take")
    second.tell("take")
    await until_waiting(file, 1)
    async with wanted(turn) as there:
        await until_waiting(file, 2)
        first.tell("give")
        await second.done("take")
        assert not there.is_set()
        await second.does("give")
        await asyncio.wait_for(there.wait(), 30)


async def test_different_work_needs_no_turns(file, another):
    await another().does("take")
    async with asyncio.timeout(30), Turns(file, LONG).of("other work").taken():
        pass


async def test_a_process_waits_for_itself_too(file):
    turn, order = Turns(file, LONG).of("work"), []

    async def work(number: int) -> None:
        async with turn.taken():
            order.append(number)
            await asyncio.sleep(0)
            order.append(number)

    await asyncio.gather(*map(work, range(3)))
    assert order == [0, 0, 1, 1, 2, 2]


async def test_the_turn_of_a_killed_process_is_free(file, another):
    other, turn = another(), Turns(file, LONG).of("work")
    await other.does("take")
    async with wanted(turn) as there:
        await until_waiting(file, 1)
        other.process.kill()
        await asyncio.wait_for(there.wait(), 30)


async def test_a_process_that_is_stuck_delays_the_others_once(file, another):
    other, turn = another(), Turns(file, patience=0.3).of("work")
    await other.does("take")
    other.process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    async with turn.taken():
        assert time.monotonic() - began > 0.25
    for _ in range(200):
        async with turn.taken():  # none waits .3 s again: together that would be a minute
            pass
    assert time.monotonic() - began < 30
    other.process.send_signal(signal.SIGCONT)
    await other.does("give")
    await other.does("take give")  # what came late was given back
    async with wanted(turn) as there:
        await asyncio.wait_for(there.wait(), 30)
        other.tell("take")
        await until_waiting(file, 1)  # and turns are taken again
    await other.done("take")


async def test_who_stops_waiting_leaves_no_lock_behind(file, another):
    other, turn = another(), Turns(file, LONG).of("work")
    await other.does("take")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05), turn.taken():
            pass
    await until_waiting(file, 1)
    await other.does("give")
    await other.does("take give")


async def test_a_process_that_waits_for_its_turn_can_end(file, another):
    holder, other = another(), another()
    await holder.does("take")
    other.tell("take")
    await until_waiting(file, 1)
    other.process.terminate()
    assert await asyncio.to_thread(other.process.wait, 30) == -signal.SIGTERM


async def test_small_batches_wait_for_their_turn_and_gather_meanwhile(file, another):
    other, turn = another(), Turns(file, LONG).of("work")
    batches: list[list[int]] = []

    async def work(items: list[int]) -> list[int]:
        batches.append(items)
        return items

    coalescer: Coalescer[int, int] = Coalescer(work, workers=2, least_beside=4, turn=turn)
    assert await coalescer.run(0) == 0
    await other.does("take")
    first = asyncio.create_task(coalescer.run(1))
    await until_waiting(file, 1)
    second = asyncio.create_task(coalescer.run(2))
    await asyncio.sleep(0)
    assert batches == [[0]]
    await other.does("give")
    assert await asyncio.wait_for(asyncio.gather(first, second), 30) == [1, 2]
    assert batches == [[0], [1, 2]]
    await other.does("take")
    assert await asyncio.wait_for(coalescer.run_all([3, 4, 5, 6]), 30) == [3, 4, 5, 6], (
        "large ones do not wait"
    )
