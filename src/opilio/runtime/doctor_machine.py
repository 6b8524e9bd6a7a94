"""What `opilio doctor` checks on this machine: the data directory and the API."""

import os
import shutil
from pathlib import Path

import httpx2

from opilio.runtime.finding import Finding
from opilio.runtime.instance_file import find_instance
from opilio.runtime.processes import holder_of_port
from opilio.runtime.service_faults import one_line
from opilio.runtime.settings import Settings

_MIB = 1024 * 1024
_LOW_DISK, _NO_DISK = 2048 * _MIB, 256 * _MIB
_PATIENCE = 5.0
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


async def examine_machine(settings: Settings) -> list[Finding]:
    return [_directory(settings.data_dir), await _server(settings)]


# ── the data directory ───────────────────────────────────────────────────────────────────────────


def _directory(directory: Path) -> Finding:
    place = next(path for path in (directory, *directory.absolute().parents) if os.path.lexists(path))
    if (why := _unusable(place)) is not None:
        said = f"{directory} cannot be used: {why}"
        return Finding("data directory", "fault", said, "choose another with OPILIO_DATA_DIR or --data-dir")
    free = shutil.disk_usage(place).free
    said = f"{directory} has {free // _MIB:,} MiB free"
    if free < _NO_DISK:
        remedy = "free some space: PostgreSQL stops when the disk is full"
        return Finding("data directory", "fault", said, remedy)
    if free < _LOW_DISK:
        remedy = "free some space soon, or keep history for fewer days (OPILIO_KEEP_…_DAYS)"
        return Finding("data directory", "warning", said, remedy)
    if not directory.exists():
        said += "; it is created at the first start"
    return Finding("data directory", "ok", said)


def _unusable(place: Path) -> str | None:
    """Why nothing can be written below the nearest folder that exists; None if it can."""
    if not place.is_dir():
        return f"{place} is a file" if place.exists() else f"{place} is a link to nowhere"
    if shutil.disk_usage(place).total == 0:
        return f"{place} is not on a disk"
    if not os.access(place, os.W_OK | os.X_OK):
        return f"{place} cannot be written by the user {_user()}"
    return None


def _user() -> str:
    import pwd  # noqa: PLC0415 - not everywhere

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # containers run as numbers without names
        return str(os.geteuid())


# ── the API ──────────────────────────────────────────────────────────────────────────────────────


async def _server(settings: Settings) -> Finding:
    """Asks what listens on the port whether it is an Opilio that can serve."""
    running = find_instance(settings.data_dir)
    port = running.port if running else settings.port
    holder = holder_of_port(port)
    if holder is None and running is None:
        return Finding("server", "ok", f"does not run here; port {port} is free")
    host = _EVERYWHERE.get(settings.host, settings.host)
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    try:
        # This machine's own port: no proxy is asked.
        async with httpx2.AsyncClient(timeout=_PATIENCE, trust_env=False) as client:
            answer = await client.get(f"{url}/readyz")
            body = answer.json()
    except (httpx2.HTTPError, ValueError) as error:
        return _another_program(port, holder, error)
    if answer.status_code == 200 and body.get("data") == {"status": "ready"}:
        return Finding("server", "ok", f"runs at {url} and is ready")
    if isinstance(body.get("error"), dict):
        said = f"runs at {url}, but is not ready: {one_line(str(body['error'].get('message')))}"
        return Finding("server", "fault", said, "follow the findings below, or look at its log")
    return _another_program(port, holder, None)


def _another_program(port: int, holder: str | None, error: Exception | None) -> Finding:
    said = f"port {port} is taken: {holder or 'its owner is not known'}"
    if error is not None:
        said += f"; it does not answer as Opilio does ({one_line(error)})"
    return Finding("server", "warning", said, "stop that program, or start Opilio with --port")
