"""Lets several processes count together; apart from the metrics, whose import decides where they count."""

import os
from pathlib import Path

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"


def share_counters(folder: Path) -> None:
    """Processes that are started from here on, and have not yet loaded the metrics, count in this folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob("*.db"):  # by processes that are gone
        left.unlink()
    os.environ[SHARED_FOLDER] = str(folder)
