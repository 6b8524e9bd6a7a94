"""`make test`: runs all tests side by side, failed ones once more alone, and says at the end which and why.

Some tests kill processes and race clocks, and fail on a machine that is too busy. A test that fails beside others and
passes alone has a bug all the same, or has found one: it is named, and more than a few of them fail the run.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree as ET

import psutil

MOST_AGAIN = 5
MEMORY, ROOM = Path("/dev/shm"), 8 << 30
# One more than cores: many tests wait for servers to start, end or notice something.
WORKERS = max(os.cpu_count() or 1, 2) + 1


def failures(report: Path) -> dict[str, str]:
    """Test, by the name that pytest takes → the first line of why it failed."""
    if not report.exists():
        return {}
    found = {}
    for case in ET.parse(report).iter("testcase"):
        for fault in (*case.findall("failure"), *case.findall("error")):
            lines = (fault.get("message") or fault.text or "no reason given").strip().splitlines()
            name = node_id(case.get("classname", ""), case.get("name", ""))
            found[name] = lines[0][:200] if lines else ""
    return found


def node_id(classname: str, name: str) -> str:
    """`tests.crawl.test_pull.TestLocks` and `test_one` → `tests/crawl/test_pull.py::TestLocks::test_one`."""
    parts = classname.split(".")
    for length in range(len(parts), 0, -1):
        module = Path("/".join(parts[:length]) + ".py")
        if module.exists():
            return "::".join([str(module), *parts[length:], name])
    return name.replace(".", "/") + ".py"  # a file that could not be collected: its name is all there is


def pytest(report: Path, folder: Path, *words: str) -> int:
    argv = [sys.executable, "-m", "pytest", f"--junitxml={report}", f"--basetemp={folder}", *words]
    return subprocess.run(argv, check=False).returncode


@contextmanager
def work_folder() -> Iterator[Path]:
    """A folder of this run, for pytest (which closes its shared one to the user that PostgreSQL runs as) and its tests.

    In memory where there is room: on ext4, creating the hundreds of files of a test's database takes sixteen times as
    much processor time when others were deleted just before.
    """
    home = Path(tempfile.mkdtemp(prefix="opilio-tests-", dir=MEMORY if is_roomy(MEMORY) else None))
    home.chmod(0o755)
    temporary = home / "tmp"
    temporary.mkdir()
    temporary.chmod(0o1777)
    os.environ["TMPDIR"] = str(temporary)
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def is_roomy(folder: Path) -> bool:
    if not folder.is_dir() or os.statvfs(folder).f_flag & os.ST_NOEXEC:
        return False
    free: int = min(psutil.virtual_memory().available, shutil.disk_usage(folder).free)
    return free > ROOM


def main(words: list[str]) -> int:
    with work_folder() as home:
        return run(home, words)


def run(home: Path, words: list[str]) -> int:
    # In the order of tests/order.py, and not by the number of tests.
    beside = ("-n", str(WORKERS), "--dist", "loadfile", "--no-loadscope-reorder")
    code = pytest(home / "first.xml", home / "first", *beside, *words)
    first = failures(home / "first.xml") if code else {}
    if code == 0:
        return 0
    if not first or len(first) > MOST_AGAIN:
        print(f"\n{len(first)} tests failed; at most {MOST_AGAIN} are run again alone.", file=sys.stderr)
        return code
    still = {name for n, name in enumerate(first) if run_alone(home / f"again-{n}", name)}
    print(f"\nRun twice ({len(first)} of at most {MOST_AGAIN}): failed beside others", file=sys.stderr)
    for name, why in first.items():
        verdict = "failed alone too" if name in still else "passed alone"
        print(f"  {name}\n    {verdict}; first failure: {why}", file=sys.stderr)
    return 1 if still else 0


def run_alone(folder: Path, name: str) -> int:
    """In a process and on servers of its own, so that no other test's leftovers reach it."""
    return pytest(folder.with_suffix(".xml"), folder, name)


if __name__ == "__main__":
    # Hundreds of processes are started: none compiles again what another has compiled.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    raise SystemExit(main(sys.argv[1:]))
