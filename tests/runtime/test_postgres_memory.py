"""The embedded PostgreSQL takes memory in proportion to what there is."""

from pathlib import Path

import psutil
import pytest

from opilio.adapters.postgres.memory import memory_settings, usable_memory

GB = 1 << 30


@pytest.mark.parametrize(
    ("memory", "buffers", "cache", "maintenance"),
    [
        (GB // 8, 128, 128, 64),
        (GB, 128, 512, 64),
        (4 * GB, 512, 2048, 128),
        (8 * GB, 1024, 4096, 256),
        (256 * GB, 1024, 131072, 256),
    ],
)
def test_an_eighth_of_the_memory_within_bounds(
    memory: int, buffers: int, cache: int, maintenance: int
) -> None:
    assert memory_settings(memory).splitlines() == [
        f"shared_buffers = {buffers}MB",
        f"effective_cache_size = {cache}MB",
        f"maintenance_work_mem = {maintenance}MB",
    ]


@pytest.mark.parametrize(
    ("group", "limits", "usable"),
    [
        ("/", {"": 3}, 3),  # what a container sees of itself
        ("/system.slice/opilio.service", {"system.slice/opilio.service": 5}, 5),
        ("/system.slice/opilio.service", {"system.slice/opilio.service": 5, "system.slice": 2}, 2),
        ("/system.slice/opilio.service", {"system.slice/opilio.service": "max"}, None),
        ("/", {}, None),
        (None, {}, None),  # another operating system
    ],
)
def test_a_limit_of_a_container_or_service_counts(
    tmp_path: Path, group: str | None, limits: dict[str, object], usable: int | None
) -> None:
    own = tmp_path / "own"
    if group is not None:
        own.write_text(f"4:memory:/elsewhere\n0::{group}\n")
    for folder, limit in limits.items():
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "memory.max").write_text(f"{limit}\n")
    assert usable_memory(tmp_path, own) == (psutil.virtual_memory().total if usable is None else usable)
