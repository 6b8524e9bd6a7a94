"""Files and folders that other users of the machine must not read."""

import os
from pathlib import Path


def private_directory(directory: Path) -> None:
    """Creates a folder for its owner only; an existing one is closed to others."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    _restrict(directory, 0o700)


def data_directory(directory: Path) -> None:
    """Creates the data directory for its owner only.

    As root the embedded PostgreSQL runs as another user, who must be able to pass through the folder, not to list it.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    _restrict(directory, 0o711 if os.geteuid() == 0 else 0o700)


def _restrict(path: Path, mode: int) -> None:
    """Only what we own can be changed; a folder that an administrator prepared stays as it is."""
    if path.stat().st_uid == os.geteuid() and path.stat().st_mode & 0o777 != mode:
        path.chmod(mode)
