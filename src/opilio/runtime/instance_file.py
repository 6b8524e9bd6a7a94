"""The file by which other commands find a running `opilio up` of a data directory."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil

from opilio.runtime.settings import Settings

_NAME = "opilio.json"

# Marks a data directory that has the demo in it.
DEMO_NOTE = "demo.json"
_LOOPBACK = "127.0.0.0/8,::1/128"


@dataclass(frozen=True, slots=True)
class Instance:
    """A running `opilio up`: its process and its address."""

    pid: int
    port: int
    url: str
    started_at: str


def demo_address(data_dir: Path) -> str | None:
    """Where the demo's shop and its test receiver are, if this data directory has the demo in it."""
    try:
        address = json.loads((data_dir / DEMO_NOTE).read_text(encoding="utf-8"))["address"]
    except (OSError, ValueError, KeyError):
        return None
    return str(address)


def has_demo(settings: Settings) -> bool:
    return (settings.data_dir / DEMO_NOTE).exists()


def demo_allowances(settings: Settings) -> dict[str, str]:
    """Settings that let a newcomer add the demo's pages and local webhook receivers; what the operator set is kept."""
    names = ("crawl_allow_private", "webhook_allow_private")
    return {name: _LOOPBACK for name in names if name not in settings.given}


def url_of(settings: Settings) -> str:
    """How people reach the dashboard: as they say, or by the address it listens on."""
    if settings.public_url:
        return settings.public_url.rstrip("/")
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(settings.host, settings.host)
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    return f"http://{host}:{settings.port}"


@contextmanager
def instance_file_written(settings: Settings) -> Iterator[Instance]:
    """Writes the file for as long as the block runs."""
    instance = Instance(
        os.getpid(), settings.port, url_of(settings), datetime.now(UTC).isoformat(timespec="seconds")
    )
    path = settings.data_dir / _NAME
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(asdict(instance)) + "\n", encoding="utf-8")
    fresh.replace(path)
    try:
        yield instance
    finally:
        path.unlink(missing_ok=True)


def find_instance(data_dir: Path) -> Instance | None:
    """The running `opilio up` of a data directory; a file left by a killed one does not count."""
    try:
        instance = Instance(**json.loads((data_dir / _NAME).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return instance if psutil.pid_exists(instance.pid) else None
