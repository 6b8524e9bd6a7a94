"""Processes and ports: end with the parent, lock the data directory, find who uses a port, handle signals."""

import asyncio
import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from opilio.errors import Unavailable
from opilio.runtime.metrics_dir import SHARED_FOLDER
from opilio.runtime.private_files import data_directory
from opilio.turns import Turns

PARENT = "OPILIO_PARENT_PID"
DATABASE_ON_STDIN = "OPILIO_DATABASE_ON_STDIN"
SHARED_PORT = "OPILIO_SHARED_PORT"  # set for workers of one API, which listen on one port together
_PR_SET_PDEATHSIG = 1
_POLL_SECONDS = 0.5


def die_with_parent(parent: int | None = None) -> None:
    """Kills this process when its parent ends, however it ends.

    That is safe: work under way is in transactions, and bots repeat requests that were not answered.
    """
    parent = parent or int(os.environ.get(PARENT, "0"))
    if not parent:
        return
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    if os.getppid() != parent:  # the parent ended before this call
        os.kill(os.getpid(), signal.SIGKILL)


def database_from_parent() -> dict[str, str]:
    """The setting that `opilio up` writes to a child's stdin once the database can be used; none without such a parent.

    A child loads its modules before it asks, while the database starts.
    """
    if os.environ.pop(DATABASE_ON_STDIN, None) is None:
        return {}
    url = sys.stdin.readline().strip()
    if not url:
        raise Unavailable("`opilio up` stopped before its database could be used.")
    return {"database_url": url}


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


@contextlib.contextmanager
def hold_directory(directory: Path) -> Iterator[None]:
    """Locks the data directory against a second `opilio up`; the lock ends with the process."""
    data_directory(directory)
    # Not readable by others: whoever can open the file could hold its lock.
    descriptor = os.open(directory / "opilio.lock", os.O_RDWR | os.O_CREAT, 0o600)
    os.fchmod(descriptor, 0o600)
    with os.fdopen(descriptor, "r+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise Unavailable(
                f"{directory} is in use by another Opilio (process {holder}). "
                "Stop it first, or choose another directory with --data-dir."
            ) from None
        file.seek(0)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def turns_of_workers() -> Turns | None:
    """What the workers of one API take turns with; a process that serves alone needs none."""
    if SHARED_PORT not in os.environ:
        return None
    return Turns(Path(os.environ[SHARED_FOLDER]) / "turns")


def require_free_port(host: str, port: int) -> None:
    """Raises if the port is in use: the server sets SO_REUSEPORT and would not notice."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise Unavailable(f"The address {host} cannot be used: {error.strerror}.") from None
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port in TIME_WAIT is free
        try:
            probe.bind(address)
            probe.listen(1)
        except OSError as error:
            raise Unavailable(
                f"Port {port} on {host} cannot be used: {holder_of_port(port) or error.strerror}. "
                f"Stop that program, or choose another port with --port."
            ) from None


def holder_of_port(port: int) -> str | None:
    """Which process listens on a port; None if none does, or it cannot be found out."""
    try:
        listening = [
            c
            for c in psutil.net_connections("tcp")
            if c.status == psutil.CONN_LISTEN and c.laddr.port == port
        ]
    except psutil.AccessDenied:
        return None
    if not listening:
        return None
    pids = sorted({c.pid for c in listening if c.pid})
    return "it is held by " + (" and ".join(_name(pid) for pid in pids) or "a program of another user")


def _name(pid: int) -> str:
    try:
        words = psutil.Process(pid).cmdline()
    except psutil.Error:
        return f"process {pid}"
    if any(word == "opilio" or word.endswith("/opilio") for word in words):
        return f"process {pid} of another Opilio"
    return f"process {pid} ({' '.join(words)[:60]})"


def stop_on_signals(hurry: Callable[[], None] | None = None) -> asyncio.Event:
    """An event that SIGINT and SIGTERM set; a second signal calls `hurry`, or else ends the process at once.

    Whoever has children that would stay behind, such as the embedded PostgreSQL, must pass `hurry`.
    """
    stop = asyncio.Event()

    def heard(number: int) -> None:
        if not stop.is_set():
            stop.set()
        elif hurry is None:
            os._exit(128 + number)
        else:
            hurry()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, heard, number)
    return stop
