"""The order of the files of tests: what takes longest begins first, or one worker would be left with it when the others are done.

xdist would begin with the files that have most tests. Those that take longest have few: they build images, install packages and kill servers.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

# Each takes between half a minute and two; `python -m pytest --durations=40` tells which do. Those that kill servers are kept apart.
LONGEST = (
    "deploy/test_container.py",
    "packaging/test_install.py",
    "dashboard/test_pages.py",
    "analytics/test_hardship.py",
    "web/test_published_documents.py",
    "deploy/test_guides.py",
    "test_chaos.py",
    "deploy/test_production_guide.py",
    "crawl/adaptive/test_virtual_days.py",
    "delivery/test_chaos.py",
    "crawl/test_interleavings.py",
    "runtime/test_tutorial.py",
    "collector/test_soak.py",
)
_RANK = {name: rank for rank, name in enumerate(LONGEST)}


def places(files: Sequence[str]) -> list[tuple[int, int]]:
    """What to sort tests by, given the file of each, below `tests`: the longest files first, then those with most tests."""
    tests = Counter(files)
    return [(_RANK.get(file, len(LONGEST)), -tests[file]) for file in files]


def below_tests(path: Path) -> str:
    return path.relative_to(Path(__file__).parent).as_posix()
