"""The folder in which several processes share their counters.

A module of its own: importing the metrics fixes where a process counts, so this must run before.
"""

import os
from pathlib import Path

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"


def share_counters(folder: Path) -> None:
    """Makes processes that have not yet imported the metrics count in this folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob("*.db"):  # of processes that have ended
        left.unlink()
    os.environ[SHARED_FOLDER] = str(folder)
