"""How much memory the embedded PostgreSQL takes of a machine or a container."""

from pathlib import Path

import psutil

_MB = 1 << 20
_LEAST_BUFFERS, _MOST_BUFFERS = 128 * _MB, 1024 * _MB
_LEAST_MAINTENANCE = 64 * _MB
_CGROUPS, _OWN_CGROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def memory_settings(memory: int) -> str:
    """Lines of a configuration for so many bytes: an eighth for PostgreSQL, because the roles and their workers live beside it.

    More than 1 GB would hold a second copy of what the operating system keeps already, and take longer to start.
    """
    buffers = min(max(memory // 8, _LEAST_BUFFERS), _MOST_BUFFERS)
    sizes = {
        "shared_buffers": buffers,
        "effective_cache_size": max(memory // 2, buffers),
        "maintenance_work_mem": max(buffers // 4, _LEAST_MAINTENANCE),
    }
    return "".join(f"{name} = {size // _MB}MB\n" for name, size in sizes.items())


def usable_memory(cgroups: Path = _CGROUPS, own: Path = _OWN_CGROUP) -> int:
    """The memory of the machine, or what a container or service may take of it, in bytes."""
    return min([int(psutil.virtual_memory().total), *_limits(cgroups, own)])


def _limits(cgroups: Path, own: Path) -> list[int]:
    """The limits of our control group (version 2) and of those that it is in."""
    try:
        paths = [line[3:] for line in own.read_text().splitlines() if line.startswith("0::")]
    except OSError:  # not Linux
        return []
    groups = [group for path in paths for group in (Path(path), *Path(path).parents)]
    texts = [_read(cgroups / group.relative_to("/") / "memory.max") for group in groups]
    return [int(text) for text in texts if text.isdigit()]


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:  # the root has none
        return ""
