"""Children: started again when they end, ended with their parent."""

import asyncio
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from opilio.runtime import supervisor as module
from opilio.runtime.supervisor import Command, Supervisor

# Short sleeps: a signal that comes just before a sleep begins is handled when it ends.
GO_ON = "while True: time.sleep(0.05)"


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


async def until(true, seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.01)


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture
async def supervisor():
    supervisor = Supervisor()
    yield supervisor
    await supervisor.stop()


async def test_a_child_gets_its_environment(supervisor, tmp_path):
    file = tmp_path / "said"
    code = f"import os; open({str(file)!r}, 'w').write(os.environ['WORD']); import time; time.sleep(60)"
    supervisor.start(Command("child", python(code), {"WORD": "hello"}))
    await until(lambda: file.exists() and file.read_text() == "hello")


async def test_a_child_loads_while_it_waits_for_its_line_and_gets_it_again_when_restarted(
    supervisor, tmp_path
):
    line = asyncio.get_running_loop().create_future()
    code = (
        "import os, pathlib, sys\n"
        f"folder = pathlib.Path({str(tmp_path)!r})\n"
        "(folder / f'loaded-{os.getpid()}').touch()\n"
        "(folder / f'read-{os.getpid()}').write_text(sys.stdin.read())\n"
        "sys.stdin.close(); raise SystemExit(1)"
    )
    supervisor.start(Command("child", python(code), line=line))
    await until(lambda: list(tmp_path.glob("loaded-*")))
    assert not list(tmp_path.glob("read-*"))
    line.set_result("postgresql://here")
    await until(lambda: [f.read_text() for f in tmp_path.glob("read-*")][:2] == ["postgresql://here\n"] * 2)


async def test_a_child_that_ends_is_started_again_later_each_time(supervisor, monkeypatch):
    pauses = []
    sleep = asyncio.sleep

    async def fast(seconds):
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(module.asyncio, "sleep", fast)
    supervisor.start(Command("child", python("raise SystemExit(3)")))
    async with asyncio.timeout(30):
        while supervisor.deaths["child"] < 3:
            await sleep(0.01)
    assert pauses[:3] == [0.5, 1, 2]


async def test_stop_asks_first(tmp_path):
    supervisor = Supervisor()
    file = tmp_path / "farewell"
    code = (
        "import signal, sys, time\n"
        f"signal.signal(signal.SIGTERM, lambda *_: (open({str(file)!r}, 'w').write('bye'), sys.exit(0)))\n"
        f"open({str(file)!r} + '.ready', 'w')\n"
        f"{GO_ON}"
    )
    supervisor.start(Command("child", python(code)))
    await until((tmp_path / "farewell.ready").exists)
    await supervisor.stop()
    assert file.read_text() == "bye"


async def test_the_youngest_stops_first(tmp_path):
    supervisor = Supervisor()
    order = tmp_path / "order"
    for name in ("api", "bot"):
        code = (
            "import signal, sys, time\n"
            f"signal.signal(signal.SIGTERM, lambda *_: (open({str(order)!r}, 'a').write('{name} '), sys.exit(0)))\n"
            f"open({str(tmp_path / name)!r}, 'w')\n"
            f"{GO_ON}"
        )
        supervisor.start(Command(name, python(code)))
    await until(lambda: (tmp_path / "api").exists() and (tmp_path / "bot").exists())
    await supervisor.stop()
    assert order.read_text() == "bot api "


async def test_stop_insists(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "_LEAST_GRACE_SECONDS", 0.1)
    kept, start = [], asyncio.create_subprocess_exec

    async def start_and_keep(*args, **named):  # the end of an unused process is no merit of the supervisor
        kept.append(await start(*args, **named))
        return kept[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_and_keep)
    supervisor = Supervisor(grace_seconds=0.1)
    ready = tmp_path / "ready"
    code = f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open({str(ready)!r}, 'w'); time.sleep(60)"
    supervisor.start(Command("stubborn", python(code)))
    await until(ready.exists)
    pid = supervisor.pids["stubborn"]
    await supervisor.stop()
    assert gone(pid)


def test_children_end_when_their_parent_is_killed(tmp_path):
    file = tmp_path / "pid"
    grandchild = f"import os, time; open({str(file)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    parent = (
        "import asyncio, sys\n"
        "from opilio.runtime.supervisor import Command, Supervisor\n"
        "async def main():\n"
        "    supervisor = Supervisor()\n"
        f"    supervisor.start(Command('child', (sys.executable, '-c', {grandchild!r})))\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())"
    )
    process = subprocess.Popen([sys.executable, "-c", parent])
    deadline = time.monotonic() + 30
    while not (file.exists() and file.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    pid = int(file.read_text())
    assert not gone(pid)
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    while not gone(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert gone(pid)


def test_a_child_whose_parent_is_gone_already_does_not_begin():
    code = "from opilio.runtime.processes import die_with_parent; die_with_parent(); print('alive')"
    env = {**os.environ, "OPILIO_PARENT_PID": "1" if os.getpid() != 1 else "2"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == -signal.SIGKILL
    assert done.stdout == ""
